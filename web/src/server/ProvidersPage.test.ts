// @vitest-environment happy-dom
import { fireEvent, screen as page, within } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { provider } from '../test/make-server';
import { Screen } from '../test/screen';
import ProvidersPage from './ProvidersPage.svelte';

const screen = new Screen();

test('a provider is tried before it is turned on', async () => {
  screen.scene.backend.providers = [provider()];
  screen.show(ProvidersPage, {});
  await within(await page.findByRole('region', { name: 'Sign-in providers' })).findByText(
    'Corp is off: try it first',
  );
  expect(page.getByRole<HTMLButtonElement>('button', { name: 'Turn on Corp' }).disabled).toBe(true);
});
test('turning off a provider names the number of people who have no other way', async () => {
  screen.scene.backend.providers = [provider({ enabled: true, tried_at: '2026-05-06', only_way_of: 12 })];
  screen.show(ProvidersPage, {});
  await fireEvent.click(await page.findByRole('button', { name: 'Turn off Corp' }));
  await page.findByText('12 people sign in only with Corp.');
  await fireEvent.click(page.getByRole('button', { name: 'Turn off' }));
  await page.findByText('Corp is off');
  expect(screen.scene.backend.bodies).toContainEqual({ enabled: false });
});
test('those who have no other way are listed, and get a link', async () => {
  screen.scene.backend.providers = [provider({ enabled: true, tried_at: '2026-05-06', only_way_of: 102 })];
  screen.scene.backend.dependents = [
    { user_id: 'user_2', name: 'Bo Ek', email: 'bo@example.org' },
    { user_id: 'user_3', name: 'Cy Ode', email: 'cy@example.org' },
  ];
  screen.show(ProvidersPage, {});
  await fireEvent.click(await page.findByRole('button', { name: 'Turn off Corp' }));
  await page.findByText('bo@example.org');
  page.getByText('And 100 other people');
  await fireEvent.click(page.getByRole('button', { name: 'Send them a link' }));
  await page.findByText('2 people get an email with a link that sets a password.');
  screen.scene.backend.refuse = /links$/;
  screen.scene.backend.failure = { code: 'mail_off', message: 'Email is off.' };
  await fireEvent.click(await page.findByRole('button', { name: 'Send them a link' }));
  const alert = await page.findByRole('alert');
  expect(alert.textContent).toContain('Email is off.');
  expect(page.queryByText(/2 people get an email/)).toBeNull();
});
test('nobody gets a link if everyone has another way', async () => {
  screen.scene.backend.providers = [provider({ enabled: true, tried_at: '2026-05-06' })];
  screen.show(ProvidersPage, {});
  await fireEvent.click(await page.findByRole('button', { name: 'Turn off Corp' }));
  await page.findByText('Everyone has another way to sign in.');
  expect(page.queryByRole('button', { name: 'Send them a link' })).toBeNull();
});
