// @vitest-environment happy-dom
import { fireEvent, screen as page, within } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { provider } from '../test/make-server';
import { Screen } from '../test/screen';
import ProvidersPage from './ProvidersPage.svelte';

const screen = new Screen();
const dialog = () => page.getByRole('dialog', { name: 'Accounts from Corp' });
const press = async (name: string | RegExp) => fireEvent.click(await page.findByRole('button', { name }));
const calls = () => screen.scene.backend.calls.filter((call) => /^(POST|DELETE)/.test(call));

async function open(): Promise<void> {
  screen.scene.backend.providers = [provider({ enabled: true, tried_at: '2026-05-06' })];
  screen.show(ProvidersPage, {});
  await fireEvent.click(await page.findByRole('button', { name: 'Accounts from Corp' }));
  await within(dialog()).findByRole('button', { name: 'Make a token' });
}

test('a token is shown once, and can be deleted', async () => {
  await open();
  within(dialog()).getByText('No tokens yet: Corp cannot send accounts.');
  expect(page.getByRole<HTMLInputElement>('textbox', { name: 'SCIM address' }).value).toBe(
    'https://chat.example.org/scim/v2',
  );
  await press('Make a token');
  const token = await page.findByRole<HTMLInputElement>('textbox', { name: 'Token' });
  expect(token.value).toBe('ovscim_scim_1');
  await within(dialog()).findByText('never used');
  const isBusy = () => page.getByRole<HTMLButtonElement>('button', { name: /^Delete the token/ }).disabled;
  await expect.poll(isBusy).toBe(false);
  await press(/^Delete the token made/);
  await press('Delete token');
  await within(dialog()).findByText('No tokens yet: Corp cannot send accounts.');
  expect(page.queryByRole('textbox', { name: 'Token' })).toBeNull();
  expect(calls()).toEqual([
    'POST /v1/identity-providers/idp_1/scim-tokens',
    'DELETE /v1/identity-providers/idp_1/scim-tokens/scim_1',
  ]);
});
test('the secret is gone when the dialog opens again', async () => {
  await open();
  await press('Make a token');
  await page.findByRole('textbox', { name: 'Token' });
  await press('Done');
  await press('Accounts from Corp');
  await within(dialog()).findByText('never used');
  expect(page.queryByRole('textbox', { name: 'Token' })).toBeNull();
});
test('a provider that is off is told to be turned on first', async () => {
  await open();
  expect(page.queryByText(/its tokens are refused/)).toBeNull();
  await press('Done');
  await press('Turn off Corp');
  await press('Turn off');
  await page.findByText('Corp is off');
  await press('Accounts from Corp');
  within(dialog()).getByText('While Corp is off, its tokens are refused: turn it on first.');
});
test('a third token is not offered', async () => {
  const token = { created_at: '2026-05-06T09:00:00Z', last_used_at: null };
  screen.scene.backend.scimTokens = [
    { id: 'scim_1', ...token },
    { id: 'scim_2', ...token },
  ];
  await open();
  await within(dialog()).findByText(/can have two tokens/);
  expect(page.getByRole<HTMLButtonElement>('button', { name: 'Make a token' }).disabled).toBe(true);
});
test('a refusal is shown, and the list stays', async () => {
  screen.scene.backend.refuse = /POST .*scim-tokens/;
  screen.scene.backend.failure = { code: 'quota_exceeded', message: 'a provider can have at most 2 tokens' };
  await open();
  await press('Make a token');
  const alert = await within(dialog()).findByRole('alert');
  expect(alert.textContent).toContain('A provider can have at most 2 tokens');
});
test('making a token asks for a confirmation if the sign-in is old', async () => {
  screen.scene.backend.refuse = /POST .*scim-tokens/;
  screen.scene.backend.failure = { code: 'confirmation_required', message: 'confirm' };
  await open();
  await press('Make a token');
  await page.findByRole('dialog', { name: 'Confirm it is you' });
});
