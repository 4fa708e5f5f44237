// Adaptation: the switches for the workspace, an agent, and a person, and the states that agents keep.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, box, button, startThread } from './lib/browser.mjs';
import { until } from './lib/copy.mjs';
import { agentCard, agentPanel, answers, dialog, inspect, main, toast } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam({ model: true });
const SETTINGS = '/northwind/settings';
const allow = (p) => p.page.getByRole('switch', { name: 'Allow agents to adapt to people' });
const adapt = (p) => p.page.getByRole('switch', { name: 'Adapt to me' });
const adaptation = (p) => p.page.getByRole('region', { name: 'Adaptation', exact: true });
const section = (p) => p.page.locator('form').getByRole('button', { name: /^Adapting to people/ });
const CARD = 'Adapts to people who allow it';
const agent = async (name) => {
  const { id } = (await api(ada, 'GET', `agents?name=${name}`)).data[0];
  return api(ada, 'GET', `agents/${id}`);
};
const stored = async (p) => (await api(p, 'GET', 'adaptation')).data;
/** List item with Vibe's state in the conversation with this title. */
const line = (p, title) =>
  adaptation(p)
    .getByRole('listitem')
    .filter({ hasText: `Vibe in ${title}: ` });
const settled = (p, what) => what.and(p.page.locator(':enabled')).waitFor();

test('nobody is adapted to until the workspace allows it', async () => {
  await ada.page.goto(`${SETTINGS}/memory`);
  await adaptation(ada).getByText('Northwind has turned adaptation off.').waitFor();
  await inspect(ada, 'adaptation-off');
  await bo.page.goto(`${SETTINGS}/context`);
  await allow(bo).waitFor();
  assert.equal(await allow(bo).isDisabled(), true);
  await ada.page.goto(`${SETTINGS}/context`);
  assert.equal(await allow(ada).isChecked(), false);
  await allow(ada).check();
  await settled(ada, allow(ada));
  await inspect(ada, 'adaptation-allowed');
  const { workspace } = await api(ada, 'GET', 'snapshot');
  assert.equal((await api(ada, 'GET', `workspaces/${workspace.id}/policy`)).adaptation_allowed, true);
});

test('an agent adapts by its profile and thresholds', async () => {
  const { id } = await agent('vibe');
  await ada.page.goto(`${SETTINGS}/agents/${id}/edit`);
  await section(ada).click();
  const profile = ada.page.getByLabel('Profile', { exact: true });
  assert.equal(await profile.inputValue(), 'inherit');
  await profile.selectOption('Tutor');
  await main(ada).getByText('A word list finds frustration, confusion, and satisfaction sooner.').waitFor();
  const frustration = ada.page.getByLabel('Frustration (−1 to 0)');
  assert.equal(await frustration.getAttribute('placeholder'), '-0.2');
  await frustration.fill('-2');
  await main(ada).getByText('-1 to 0', { exact: true }).waitFor();
  await frustration.fill('-0.4');
  await ada.page.getByLabel('Reflect every (replies)').fill('4');
  await inspect(ada, 'adaptation-agent');
  await button(ada.page, 'Save').click();
  await toast(ada, 'Saved as version 2');
  const { sentiment, reflection } = await agent('vibe');
  assert.deepEqual(
    [sentiment.enabled, sentiment.profile, sentiment.frustration_threshold, sentiment.satisfaction_threshold],
    [true, 'tutor', -0.4, null],
  );
  assert.equal(reflection.interval_turns, 4);
});

test('a saved agent is not changed by opening it, and its metaprompts stay', async () => {
  const metaprompt = {
    id: 'mood',
    template: 'How does the person feel? {{evidence}}',
    trigger: { type: 'event_based', event: 'user_confused' },
  };
  const { id } = await agent('vibe');
  await api(ada, 'PATCH', `agents/${id}`, { reflection: { interval_turns: 4, metaprompts: [metaprompt] } });
  const before = (await agent('vibe')).reflection;
  await ada.page.reload();
  await section(ada).click();
  assert.equal(await ada.page.getByLabel('Profile', { exact: true }).inputValue(), 'tutor');
  assert.equal(await button(ada.page, 'Save').count(), 0);
  await ada.page.getByLabel('Reflect every (replies)').fill('5');
  await button(ada.page, 'Save').click();
  await toast(ada, 'Saved as version 4');
  const { reflection } = await agent('vibe');
  assert.deepEqual(reflection, { ...before, interval_turns: 5 });
});

test('the agent’s page and panel show that it adapts', async () => {
  const { id } = await agent('vibe');
  await ada.page.goto(`${SETTINGS}/agents/${id}`);
  await main(ada).getByText(CARD).waitFor();
  await bo.page.goto(`/northwind/c/general?panel=agent:${id}`);
  await agentPanel(bo).getByText(CARD).waitFor();
});

test('the agent’s card shows that it adapts', async () => {
  await bo.page.goto(`${SETTINGS}/agents`);
  await agentCard(bo, 'Vibe').getByText(CARD).waitFor();
  assert.equal(await agentCard(bo, 'Coder').getByText(CARD).count(), 0);
  await inspect(bo, 'adaptation-card');
});

test('a person turns adaptation on, and sees the states', async () => {
  await ada.page.goto(`${SETTINGS}/memory`);
  assert.equal(await adapt(ada).isChecked(), false);
  await adapt(ada).check();
  await settled(ada, adapt(ada));
  await adaptation(ada).getByText('No agent has adapted to you yet.').waitFor();
  assert.equal((await api(ada, 'GET', 'memory-settings')).adapt, true);

  for (const title of ['Launch plan', 'Harbor fair']) {
    await ada.page.goto('/northwind/c/general');
    await startThread(ada.page, title);
    await box(ada.page, 'Reply, or @mention an agent').fill('@vibe this is terrible and useless');
    await ada.page.keyboard.press('Enter');
    await answers(ada, 'Vibe').first().waitFor();
  }
  await until(async () => (await api(ada, 'GET', 'adaptation')).data.length === 2);

  await ada.page.goto(`${SETTINGS}/memory`);
  await line(ada, 'Launch plan').waitFor();
  await line(ada, 'Harbor fair').waitFor();
  await inspect(ada, 'adaptation-mine');
});

test('a list that failed to load is loaded again, and older states are shown on request', async () => {
  let broken = true;
  await ada.page.route('**/v1/adaptation?*', async (r) => {
    const json = { error: { type: 'unavailable', code: 'x', message: 'The database is away.' } };
    if (broken) return r.fulfill({ status: 503, json });
    // Returns the newest state on the first page, and the others on the second.
    const data = await stored(ada);
    const isNewest = !r.request().url().includes('cursor=older');
    const page = isNewest ? data.slice(0, 1) : data.slice(1);
    const next_cursor = isNewest ? 'older' : null;
    return r.fulfill({ json: { object: 'list', data: page, has_more: isNewest, next_cursor } });
  });
  await ada.page.reload();
  await adaptation(ada).getByText('Couldn’t load the mood scores').waitFor();
  await accessible(ada.page, 'mood scores that failed to load');
  broken = false;
  await adaptation(ada).getByRole('button', { name: 'Try again' }).click();
  const buttons = adaptation(ada).getByRole('button', { name: 'Delete', exact: true });
  await buttons.first().waitFor();
  assert.equal(await buttons.count(), 1);
  await accessible(ada.page, 'mood scores with older ones');
  await adaptation(ada).getByRole('button', { name: 'Show older' }).press('Enter');
  await buttons.nth(1).and(ada.page.locator(':focus')).waitFor();
  assert.equal(await adaptation(ada).getByRole('button', { name: 'Show older' }).count(), 0);
  await ada.page.unroute('**/v1/adaptation?*');
});

test('a person deletes a state with the keyboard, and all of them after a question', async () => {
  await ada.page.reload();
  const remove = (title) => line(ada, title).getByRole('button', { name: 'Delete' });
  await remove('Launch plan').press('Enter');
  await line(ada, 'Launch plan').waitFor({ state: 'detached' });
  await remove('Harbor fair').and(ada.page.locator(':focus')).waitFor();
  assert.equal((await stored(ada)).length, 1);
  const all = adaptation(ada).getByRole('button', { name: 'Delete all' });
  await all.press('Enter');
  await dialog(ada).getByText('Delete all mood scores?').waitFor();
  await inspect(ada, 'adaptation-delete-all');
  await ada.page.keyboard.press('Escape');
  await dialog(ada).waitFor({ state: 'detached' });
  await all.and(ada.page.locator(':focus')).waitFor();
  assert.equal((await stored(ada)).length, 1);
  await all.press('Enter');
  await dialog(ada).getByRole('button', { name: 'Delete all' }).click();
  await adaptation(ada).getByText('No agent has adapted to you yet.').waitFor();
  assert.deepEqual(await stored(ada), []);
});

test('nobody else sees a state', async () => {
  await bo.page.goto(`${SETTINGS}/memory`);
  await adaptation(bo).waitFor();
  assert.equal(await adapt(bo).isChecked(), false);
  assert.equal(await adaptation(bo).getByRole('listitem').count(), 0);
});

test('if adaptation is turned off, an agent’s page does not show that it adapts', async () => {
  await ada.page.goto(`${SETTINGS}/context`);
  await allow(ada).uncheck();
  await settled(ada, allow(ada));
  const { id } = await agent('vibe');
  await ada.page.goto(`${SETTINGS}/agents/${id}/edit`);
  await main(ada).getByText('Answers kept for programs').waitFor();
  assert.equal(await section(ada).count(), 0);
  await ada.page.goto(`${SETTINGS}/agents/${id}`);
  await main(ada).getByRole('heading', { name: 'Vibe', level: 2 }).waitFor();
  assert.equal(await main(ada).getByText(CARD).count(), 0);
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
