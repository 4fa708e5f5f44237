// Settings › Server.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { button } from './lib/browser.mjs';
import { until } from './lib/copy.mjs';
import { inspect, main } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const backups = await mkdtemp(join(tmpdir(), 'openvibe-e2e-backups-'));
after(() => rm(backups, { recursive: true, force: true }));
const { ada, bo } = await startTeam({ env: { OPENVIBE_BACKUP_TO: backups } });
const region = (p, name) => main(p).getByRole('region', { name, exact: true });
const tabs = (p) => p.page.getByRole('navigation', { name: 'Settings' });

test('an admin of the oldest workspace sees the state of the server', async () => {
  await ada.page.goto('/northwind/settings');
  await tabs(ada).getByRole('link', { name: 'Server', exact: true }).click();
  const { version } = await api(ada, 'GET', 'server');
  await region(ada, 'Version').getByText(`OpenVibe ${version}`).waitFor();
  await region(ada, 'Disk').getByText('free.').waitFor();
  await region(ada, 'Backups').getByText('There is no backup yet.').waitFor();
  assert.equal(await button(ada.page, 'Test a restore').isDisabled(), true);
  await inspect(ada, 'server-new');
});

test('a backup is made and tested', async () => {
  await button(ada.page, 'Back up now').click();
  const state = region(ada, 'Backups');
  // A job also tests the first backup, within ten seconds, sometimes before the page shows it.
  await state
    .getByText(
      /Last backup (just now|\d+ minutes? ago), [\d.]+ (KB|MB)\. (Not tested yet|Restored and compared today)\./,
    )
    .waitFor();
  const testedAt = async () => (await api(ada, 'GET', 'server')).backups.drill?.at;
  await until(async () => (await testedAt()) !== undefined);
  const before = await testedAt();
  await button(ada.page, 'Test a restore').click();
  await until(async () => (await testedAt()) !== before);
  await state.getByText('Restored and compared today.').waitFor();
  await inspect(ada, 'server-backup');
});

test('a backup that cannot be written is reported with its cause', async () => {
  await rm(backups, { recursive: true });
  await button(ada.page, 'Test a restore').click();
  await region(ada, 'Backups')
    .getByText(/found a fault|could not|cannot|failed/i)
    .first()
    .waitFor();
  await inspect(ada, 'server-fault');
});

test('members do not see the page, and neither do admins of other workspaces', async () => {
  await bo.page.goto('/northwind/settings/server');
  await main(bo).getByText('Only admins can see this').waitFor();
  assert.equal(await tabs(bo).getByRole('link', { name: 'Server', exact: true }).count(), 0);
  await api(ada, 'POST', 'workspaces', { name: 'Southwind', slug: 'southwind' });
  await ada.page.goto('/southwind/settings/server');
  await main(ada).getByText('Only admins of this server’s first workspace can see this page.').waitFor();
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
