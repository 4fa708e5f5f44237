// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { provider } from '../test/make-server';
import { Screen } from '../test/screen';
import LockedOut from './LockedOut.svelte';

const screen = new Screen();

test('a workspace that requires a provider offers those of the server', async () => {
  screen.scene.backend.providers = [provider({ enabled: true })];
  screen.show(LockedOut, { refusal: 'provider_required' as const, retry: () => Promise.resolve() });
  page.getByRole('heading', { name: 'northwind requires another way to sign in' });
  await page.findByRole('button', { name: 'Sign in with Corp' });
  expect(page.queryByRole('button', { name: 'Open northwind' })).toBeNull();
});
test('an attempt to open it without a second factor says what is missing', async () => {
  let tries = 0;
  const retry = () => {
    tries++;
    screen.ws.status = 'error';
    screen.ws.problem = 'This workspace requires a second factor';
    return Promise.resolve();
  };
  screen.show(LockedOut, { refusal: 'second_factor_required' as const, retry });
  await fireEvent.click(page.getByRole('button', { name: 'Open northwind' }));
  expect((await page.findByRole('alert')).textContent).toContain('This workspace requires a second factor');
  expect(tries).toBe(1);
});
