// @vitest-environment happy-dom
import { fireEvent, screen as page, within } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { Screen } from '../test/screen';
import SecurityPage from './SecurityPage.svelte';

const screen = new Screen();

test('an admin sees who has no second factor, and requires one', async () => {
  screen.show(SecurityPage, {});
  await page.findByText('3 of 40 people have no second factor yet.');
  await fireEvent.click(page.getByRole('button', { name: 'Sign-in rules' }));
  const rules = within(await page.findByRole('dialog', { name: 'Sign-in rules' }));
  await fireEvent.click(await rules.findByRole('switch', { name: /^Require a second factor/ }));
  await fireEvent.click(rules.getByRole('button', { name: 'Save' }));
  await expect.poll(() => page.queryByRole('dialog')).toBeNull();
  expect(screen.scene.backend.signIn.second_factor).toBe('required');
});
