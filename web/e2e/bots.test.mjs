// Bots in the settings: channels, keys, events, and commands.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { box, button } from './lib/browser.mjs';
import { dialog, inspect, option, toast } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam();
const bots = (p) => p.page.getByRole('region', { name: 'Bots' });
const open = async (p) => {
  await p.page.goto('/northwind/settings/bots');
  await p.page.getByRole('heading', { name: 'Webhooks' }).waitFor();
  const tab = p.page.getByRole('group', { name: 'Integrations' }).getByRole('button', { name: 'Bots' });
  if (await tab.count()) await tab.click();
};
const view = (p, name) => dialog(p).getByRole('button', { name, exact: true });
const stored = async () => {
  const [bot] = (await api(ada, 'GET', 'bots')).data;
  return api(ada, 'GET', `bots/${bot.id}`);
};

test('an admin adds a bot with a key, events over a socket, and a command', async () => {
  await open(ada);
  await button(ada.page, 'Add bot').click();
  await box(ada.page, 'Name').fill('Deploy');
  await dialog(ada).getByLabel('#general').check();
  await inspect(ada, 'bots-new');
  await button(ada.page, 'Create').click();
  await dialog(ada).getByRole('heading', { name: 'Bot “Deploy”' }).waitFor();
  await inspect(ada, 'bots-about');
  await view(ada, 'Keys').click();
  await box(ada.page, 'New key').fill('Deployer');
  await button(ada.page, 'Create key').click();
  assert.match(await dialog(ada).getByLabel('Key', { exact: true }).inputValue(), /^ov_/);
  await view(ada, 'Events').click();
  await dialog(ada).getByLabel('Delivery').selectOption('socket');
  await dialog(ada).getByLabel('Format').selectOption('slack');
  await dialog(ada).getByLabel('Reaction added').check();
  await button(ada.page, 'Send events').click();
  assert.match(await dialog(ada).getByLabel('Signing secret').inputValue(), /^whsec_/);
  await view(ada, 'Waiting').click();
  await dialog(ada).getByText('None.').waitFor();
  await inspect(ada, 'bots-events');
  await view(ada, 'Commands').click();
  await button(ada.page, 'Add command').click();
  await box(ada.page, 'Command').fill('/deploy');
  await box(ada.page, 'Description').fill('Deploys a service');
  await button(ada.page, 'Save').click();
  await toast(ada, 'Saved');
  await inspect(ada, 'bots-commands');
  await ada.page.keyboard.press('Escape');
  await dialog(ada).waitFor({ state: 'detached' });
  await button(ada.page, 'Commands').click();
  await ada.page.getByRole('region', { name: 'Commands' }).getByText('/deploy').waitFor();
  const { keys, subscription, commands } = await stored();
  assert.equal(keys[0].name, 'Deployer');
  assert.deepEqual(subscription.events.toSorted(), ['app_mention', 'message.created', 'reaction.added']);
  assert.deepEqual([subscription.transport, subscription.format], ['socket', 'slack']);
  assert.deepEqual(
    commands.map((c) => c.name),
    ['deploy'],
  );
});

test('a command is offered, keeps its text without an answer, and an unknown one is a message only on request', async () => {
  const { page } = bo;
  await page.goto('/northwind/c/general');
  const composer = box(page, 'Start a thread in #general');
  await composer.pressSequentially('/dep');
  await option(bo, '/deploy').waitFor();
  await page.keyboard.press('Enter');
  await composer.pressSequentially('web now');
  await page.getByText('Runs a command of a bot').waitFor();
  await page.keyboard.press('Enter');
  await toast(bo, 'Deploy bot did not answer');
  assert.equal(await composer.inputValue(), '/deploy web now');
  await composer.fill('/shrug well');
  await page.keyboard.press('Enter');
  await button(page, 'Send as text').click();
  await page.getByRole('link', { name: '/shrug well' }).first().waitFor();
});

test('a bot is paused, resumed, and deleted; members do not see the section', async () => {
  await open(ada);
  await button(ada.page, 'Open Deploy').click();
  await button(ada.page, 'Pause').click();
  await button(ada.page, 'Resume').click();
  await button(ada.page, 'Pause').waitFor();
  assert.equal((await stored()).status, 'active');
  await button(ada.page, 'Delete').click();
  await button(ada.page, 'Delete bot').click();
  await toast(ada, 'The bot “Deploy” is deleted');
  assert.equal(await bots(ada).getByRole('listitem').count(), 0);
  await open(bo);
  assert.equal(await bots(bo).count(), 0);
});
