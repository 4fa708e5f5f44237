// @vitest-environment happy-dom
import { fireEvent, screen as page, within } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import type { Check, ServerInfo } from '../api/server';
import { backups, certificate, serverInfo } from '../test/make-server';
import { Screen } from '../test/screen';
import ServerPage from './ServerPage.svelte';

const screen = new Screen();
const region = (name: string) => page.getByRole('region', { name });
const press = (name: string) => fireEvent.click(page.getByRole('button', { name }));
const isDisabled = (name: string) => page.getByRole<HTMLButtonElement>('button', { name }).disabled;
const calls = () => screen.scene.backend.calls.filter((call) => !call.startsWith('GET'));

async function show(x: Partial<ServerInfo> = {}): Promise<void> {
  screen.scene.backend.server = serverInfo(x);
  screen.show(ServerPage, {});
  await page.findByRole('region', { name: 'Version' });
}

test('agents that run, and a key that was copied, need no act', async () => {
  await show();
  const names = page.getAllByRole('region').map((r) => within(r).getByRole('heading').textContent);
  expect(names).toEqual(['Version', 'Certificate', 'Backups', 'Email', 'Checks', 'Disk']);
  expect(page.queryByRole('button', { name: 'I have a copy' })).toBeNull();
});
test('an admin permits the search for updates', async () => {
  await show();
  const permits = () => page.getByRole<HTMLInputElement>('checkbox', { name: 'Look for updates' });
  expect(permits().checked).toBe(false);
  await fireEvent.click(permits());
  await expect.poll(() => permits().checked).toBe(true);
  expect(screen.scene.backend.bodies).toContainEqual({ look_for_updates: true });
});
test('while a backup runs, no other run starts', async () => {
  await show();
  await press('Back up now');
  await within(region('Backups')).findByText('A backup or a test is running.');
  expect([isDisabled('Back up now'), isDisabled('Test a restore')]).toEqual([true, true]);
  expect(calls()).toEqual(['POST /v1/server/backups']);
});
test('without a place for backups, nothing can be started', async () => {
  await show({ backups: backups({ to: null, last: null, drill: null, next_at: null }) });
  within(region('Backups')).getByText(/set OPENVIBE_BACKUP_TO/);
  expect([isDisabled('Back up now'), isDisabled('Test a restore')]).toEqual([true, true]);
});
test('a refused request is explained in its region', async () => {
  await show();
  screen.scene.backend.refuse = /drill/;
  await press('Test a restore');
  await within(region('Backups')).findByRole('alert');
  expect(isDisabled('Test a restore')).toBe(false);
});
test('the line about the secret key stays until there is a copy', async () => {
  await show({ backups: backups({ key_copied: false }) });
  within(region('Backups')).getByText('/var/lib/openvibe/secret.key');
  await press('I have a copy');
  await expect.poll(() => page.queryByText('/var/lib/openvibe/secret.key')).toBeNull();
  expect(screen.scene.backend.bodies).toContainEqual({ key_copied: true });
});
test('only a certificate that the server orders can be renewed', async () => {
  const [expires_at, renew_at] = ['2126-08-03T09:00:00', '2126-07-03T09:00:00'];
  await show({ certificate: certificate({ expires_at, renew_at }) });
  within(region('Certificate')).getByText('Valid until August 3, 2126, renews itself on July 3, 2126.');
  within(region('Certificate')).getByText('For chat.example.org, from Let’s Encrypt');
  await press('Renew now');
  await expect.poll(calls).toEqual(['POST /v1/server/certificate']);
});
test('a certificate in files has no button', async () => {
  await show({ certificate: certificate({ source: 'files', renew_at: null }) });
  expect(page.queryByRole('button', { name: 'Renew now' })).toBeNull();
});
test('checks name what failed, and what to do', async () => {
  const failed: Check = {
    name: 'public',
    state: 'failed',
    text: 'https://chat.example.org answers, but it is another server (nginx)',
    hint: 'point the proxy to 127.0.0.1:8080',
    ms: 12,
  };
  await show({ checks: null, checked_at: null });
  within(region('Checks')).getByText('Not checked yet.');
  screen.scene.backend.server = serverInfo({ checks: [failed], checked_at: new Date().toISOString() });
  await press('Run checks');
  const row = await within(region('Checks')).findByRole('listitem');
  expect(row.textContent.replace(/\s+/g, ' ').trim()).toBe(
    'Failed Public https://chat.example.org answers, but it is another server (nginx) point the proxy to 127.0.0.1:8080',
  );
  within(region('Checks')).getByText('Checked just now: 1 failed.');
});
test('the agents of a restored copy are started here', async () => {
  screen.ws.agentsState = 'asleep';
  await show({ agents_state: 'asleep' });
  await press('Start agents');
  await expect.poll(() => page.queryByRole('region', { name: 'Agents' })).toBeNull();
  expect(screen.ws.agentsState).toBe('running');
  expect(screen.app.ui.toast?.text).toBe('The agents are started. 2 interrupted tasks continue.');
});
