// The export of a workspace, in Settings › Export.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { button, startThread } from './lib/browser.mjs';
import { inspect, main } from './lib/parts.mjs';
import { startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam();
const part = main(ada);
const open = async () => {
  await ada.page.goto('/northwind/settings/export');
  await part.getByRole('heading', { name: 'Take everything with you' }).waitFor();
};

test('an admin exports the workspace and downloads the archive, also later', async () => {
  await startThread(ada.page, 'Take me with you');
  await open();
  await part.getByLabel('Scope').waitFor();
  await inspect(ada, 'export-new');
  await part.getByLabel('Scope').selectOption('mine');
  await button(part, 'Export').click();
  const link = part.getByRole('link', { name: 'Download' });
  await link.waitFor();
  await inspect(ada, 'export-ready');
  const [file] = await Promise.all([ada.page.waitForEvent('download'), link.click()]);
  const bytes = await readFile(await file.path());
  assert.equal(bytes.subarray(0, 2).toString(), 'PK');
  await open();
  await link.waitFor();
  await button(part, 'New export').click();
  await part.getByLabel('With files').uncheck();
  await bo.page.goto('/northwind/settings/export');
  await main(bo).getByText('Only admins can see this').waitFor();
});
