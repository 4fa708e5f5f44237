// Channels: browsing, joining, renaming, archiving with Undo, and their rows in the sidebar.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, box, button, message, PHONE, reply, shot, startThread, WIDE } from './lib/browser.mjs';
import { dialog, side, threadRow } from './lib/parts.mjs';
import { startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam({ bo: { theme: 'light' } });
const channels = (p) => side(p).getByRole('region', { name: 'Channels' });

async function create(p, name, topic = '') {
  await button(p.page, 'New channel').click();
  await box(p.page, 'Name').fill(name);
  await box(p.page, 'Topic').fill(topic);
  await button(p.page, 'Create channel').click();
  await box(p.page, `Start a thread in #${name}`).waitFor();
}

test('an empty channel suggests questions for an agent', async () => {
  await button(ada.page, '@vibe what can you do?').click();
  assert.equal(await box(ada.page, 'Start a thread in #general').inputValue(), '@vibe what can you do?');
  await box(ada.page, 'Start a thread in #general').fill('');
});

test('without a model, the composer says so, and takes admins to the settings', async () => {
  const status = (p) =>
    p.page.locator('.composer').getByText('No model connected: agents only quote messages');
  const link = (p) => p.page.locator('.composer').getByRole('link', { name: 'Connect a model' });
  await status(bo).waitFor();
  assert.equal(await link(bo).count(), 0);
  await status(ada).waitFor();
  await link(ada).click();
  await ada.page.waitForURL('**/northwind/settings/model');
  await ada.page.getByText('No model is connected').waitFor();
  await ada.page.goBack();
  await box(ada.page, 'Start a thread in #general').waitFor();
});

test('the sidebar lists joined channels only; Browse channels lists the others', async () => {
  await create(ada, 'launch', 'The fair in March');
  await create(ada, 'design');
  await channels(ada).getByRole('link', { name: 'launch' }).waitFor();
  await box(bo.page, 'Start a thread in #general').waitFor();
  assert.deepEqual(await channels(bo).getByRole('link').allInnerTexts(), ['general', 'random']);
  await button(bo.page, 'Browse channels').click();
  const row = dialog(bo).getByRole('listitem').filter({ hasText: 'launch' });
  await row.getByText('1 member · The fair in March').waitFor();
  await accessible(bo.page, 'Browse channels');
  await shot(bo.page, '31-browse-channels-light');
  await bo.page.setViewportSize(PHONE);
  await accessible(bo.page, 'Browse channels at 390 px');
  await shot(bo.page, '32-browse-channels-390-light');
  await bo.page.setViewportSize(WIDE);
  await box(bo.page, 'Find a channel by name or topic').fill('fair');
  await dialog(bo).getByRole('listitem').filter({ hasText: 'design' }).waitFor({ state: 'detached' });
  await button(bo.page, 'Join #launch').click();
  await row.getByText('Joined').waitFor();
  await row.getByText('2 members').waitFor();
  await bo.page.keyboard.press('Escape');
  await channels(bo).getByRole('link', { name: 'launch' }).click();
  await box(bo.page, 'Start a thread in #launch').waitFor();
});

test('a channel that is not joined is live while it is open; Browse channels shows its activity afterward', async () => {
  const browse = async () => {
    await button(bo.page, 'Browse channels').click();
    return dialog(bo).getByRole('listitem').filter({ hasText: 'design' });
  };
  await (await browse()).getByRole('button', { name: 'design', exact: true }).click();
  await box(bo.page, 'Start a thread in #design').waitFor();
  await channels(ada).getByRole('link', { name: 'design' }).click();
  await startThread(ada.page, 'First sketch', 'design');
  await threadRow(bo, 'First sketch').click();
  await reply(ada.page, 'In blue');
  await message(bo.page, 'In blue').waitFor();
  await channels(bo).getByRole('link', { name: 'launch' }).click();
  await box(bo.page, 'Start a thread in #launch').waitFor();
  await reply(ada.page, 'Or in green');
  const row = await browse();
  await row.getByText('New activity').waitFor();
  await row.getByRole('button', { name: 'design', exact: true }).click();
  await threadRow(bo, 'First sketch').getByText('2 replies').waitFor();
  await channels(bo).getByRole('link', { name: 'launch' }).click();
});

test('everyone in a renamed channel moves to its new address', async () => {
  await channels(ada).getByRole('link', { name: 'launch' }).click();
  await button(ada.page, 'About #launch').click();
  await box(ada.page, 'Name').fill('Launch Week');
  await accessible(ada.page, 'About a channel');
  await shot(ada.page, '33-about-channel-dark');
  await button(ada.page, 'Save').click();
  for (const p of [ada, bo]) {
    await box(p.page, 'Start a thread in #launch-week').waitFor();
    assert.match(p.page.url(), /\/c\/launch-week$/);
  }
});

test('a taken name is rejected, and the dialog stays open', async () => {
  await button(ada.page, 'About #launch-week').click();
  await box(ada.page, 'Name').fill('design');
  await button(ada.page, 'Save').click();
  await dialog(ada).getByRole('alert').waitFor();
  await ada.page.keyboard.press('Escape');
});

test('archiving asks for confirmation; Cancel does nothing', async () => {
  await button(ada.page, 'About #launch-week').click();
  await button(ada.page, 'Archive channel…').click();
  await dialog(ada).getByRole('heading', { name: 'Archive #launch-week?' }).waitFor();
  await dialog(ada)
    .getByText('It disappears from everyone’s sidebar. Its threads stay readable and searchable.')
    .waitFor();
  await accessible(ada.page, 'archiving a channel');
  await shot(ada.page, '34-archive-channel-dark');
  await button(ada.page, 'Cancel').click();
  await dialog(ada).waitFor({ state: 'detached' });
  await channels(ada).getByRole('link', { name: 'launch-week' }).waitFor();
});

test('Undo in the toast brings an archived channel back', async () => {
  await startThread(ada.page, 'Stays readable', 'launch-week');
  await channels(ada).getByRole('link', { name: 'launch-week' }).click();
  await button(ada.page, 'About #launch-week').click();
  await button(ada.page, 'Archive channel…').click();
  await button(ada.page, 'Archive channel').click();
  for (const p of [ada, bo])
    await channels(p).getByRole('link', { name: 'launch-week' }).waitFor({ state: 'detached' });
  await box(ada.page, 'Start a thread in #general').waitFor();
  await accessible(ada.page, 'the toast with Undo');
  await shot(ada.page, '35-toast-undo-dark');
  await button(ada.page, 'Undo').click();
  for (const p of [ada, bo]) await channels(p).getByRole('link', { name: 'launch-week' }).waitFor();
  await box(ada.page, 'Start a thread in #launch-week').waitFor();
});

test('in Settings, Workspace, admins and creators unarchive; others see no archived channels', async () => {
  await button(ada.page, 'About #launch-week').click();
  await button(ada.page, 'Archive channel…').click();
  await button(ada.page, 'Archive channel').click();
  await button(ada.page, 'Undo').waitFor();
  await bo.page.goto('/northwind/settings/channels');
  await bo.page.getByRole('heading', { name: 'Workspace' }).waitFor();
  assert.equal(await bo.page.getByRole('heading', { name: 'Archived channels' }).count(), 0);
  await create(bo, 'notes');
  await ada.page.goto('/northwind/settings/channels');
  await button(ada.page, 'Unarchive #launch-week').waitFor();
  await accessible(ada.page, 'Settings, archived channels');
  await shot(ada.page, '36-settings-channels-dark');
  await button(ada.page, 'Unarchive #launch-week').click();
  await channels(ada).getByRole('link', { name: 'launch-week' }).waitFor();
});

test('the theme follows the system until one is chosen, and the clock has 12 or 24 hours', async () => {
  const { page } = ada;
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  await page.goto('/northwind/settings/appearance');
  await button(page, 'System').click();
  assert.equal(await theme(), 'dark');
  await page.emulateMedia({ colorScheme: 'light' });
  await page.waitForFunction(() => document.documentElement.dataset.theme === 'light');
  await page.reload();
  assert.equal(await button(page, 'System').getAttribute('aria-pressed'), 'true');
  assert.equal(await theme(), 'light');
  await button(page, 'Dark').click();
  await page.emulateMedia({ colorScheme: 'dark' });
  await button(page, '12-hour').click();
  await page.getByText(/^\d{1,2}:\d\d [AP]M$/).waitFor();
  await accessible(page, 'Appearance');
  await shot(page, '37-appearance-dark');
  await page.goto('/northwind/c/launch-week');
  await page
    .locator('main time')
    .getByText(/^\d{1,2}:\d\d [AP]M$/)
    .waitFor();
  await page.goto('/northwind/settings/appearance');
  await button(page, '24-hour').click();
});

test('one mention is read out as "1 mention"', async () => {
  const { page } = bo;
  await page.goto('/northwind/c/random');
  await box(page, 'Start a thread in #random').waitFor();
  await channels(ada).getByRole('link', { name: 'general' }).click();
  await box(ada.page, 'Start a thread in #general').pressSequentially('@b');
  await ada.page.getByRole('option', { name: /Bo Chen/ }).waitFor();
  await ada.page.keyboard.press('Enter');
  await ada.page.keyboard.type('one question');
  await ada.page.keyboard.press('Enter');
  await channels(bo).getByTitle('1 mention', { exact: true }).waitFor();
  const name = await channels(bo)
    .getByRole('link', { name: /^general/ })
    .ariaSnapshot();
  assert.match(name, /general 1 mention"/);
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
