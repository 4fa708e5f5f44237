// Channel agents: settings, replies without a mention, the daily limit, and an agent that is turned off.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { box, button } from './lib/browser.mjs';
import { answers, composer, dialog, idle, inspect, main, side } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam({ model: true, bo: { theme: 'light' } });
const start = (p) => box(p.page, 'Start a thread in #general');
const modes = (p) => dialog(p).getByRole('radiogroup', { name: 'Agent in this channel' });
const mode = (p, name) => modes(p).getByRole('radio', { name, exact: true });
const daily = (p) => dialog(p).getByRole('spinbutton', { name: 'Replies per day' });
const general = (p) => side(p).getByRole('link', { name: 'general' }).click();

async function save(p) {
  await button(p.page, 'Save').click();
  await dialog(p).waitFor({ state: 'detached' });
}
async function post(field, text) {
  await field.fill(text);
  await field.press('Enter');
}

/** Opens "Agent in this channel" from the channel's menu. */
async function openAgent(p) {
  await button(p.page, 'Channel menu').click();
  await p.page.getByRole('menuitem', { name: 'Agent in this channel' }).click();
}

test('a channel’s menu opens its agent and when it replies', async () => {
  await start(ada).waitFor();
  await openAgent(ada);
  assert.equal(await mode(ada, 'When mentioned').isChecked(), true);
  assert.equal(await daily(ada).count(), 0);
  await mode(ada, 'Each new thread').check();
  await dialog(ada).getByLabel('Agent', { exact: true }).selectOption('Vibe');
  assert.equal(await daily(ada).inputValue(), '100');
  await inspect(ada, 'channel-agent');
  await save(ada);
  const picture = button(ada.page, 'Vibe answers each new thread');
  await picture.waitFor();
  await inspect(ada, 'channel-agent-head');
  await picture.click();
  assert.equal(await mode(ada, 'Each new thread').isChecked(), true);
  await button(ada.page, 'Cancel').click();
});

test('an agent’s overview lists its channels and adds it to others', async () => {
  const { data } = await api(ada, 'GET', 'agents?name=coder');
  await api(ada, 'POST', 'channels', { name: 'support' });
  await ada.page.goto(`/northwind/settings/agents/${data[0].id}`);
  await main(ada).getByText('When mentioned', { exact: true }).waitFor();
  await main(ada).getByLabel('Add Coder to a channel').selectOption('#support');
  assert.equal(await mode(ada, 'Each new thread').isChecked(), true);
  await save(ada);
  await button(ada.page, '#support, each new thread').waitFor();
  await inspect(ada, 'agents-overview-channels');
  const support = (await api(ada, 'GET', 'snapshot')).channels.find((c) => c.name === 'support');
  assert.deepEqual([support.agent.agent_id, support.agent.mode], [data[0].id, 'roots']);
  await side(ada).getByRole('link', { name: 'general' }).click();
});

test('it replies to the first message of a thread, and to others when mentioned', async () => {
  await start(bo).fill('What speaks for Monday?');
  await bo.page.getByText('Vibe will reply here').waitFor();
  await start(bo).press('Enter');
  await answers(bo, 'Vibe').getByText('two quiet days before the fair').waitFor();
  await button(bo.page, 'Agents reply when mentioned').waitFor();
  await composer(bo).fill('Thank you');
  assert.equal(await bo.page.getByText('will reply here').count(), 0);
  await composer(bo).fill('');
});

test('at the daily limit, a notice explains how to ask anyway', async () => {
  await openAgent(ada);
  await mode(ada, 'Every message').check();
  await daily(ada).fill('2');
  await save(ada);
  await general(bo);
  await post(start(bo), 'What speaks for Monday?');
  await button(bo.page, 'Replies here: Vibe').waitFor();
  await answers(bo, 'Vibe').getByText('two quiet days before the fair').waitFor();
  await idle(bo);
  await post(composer(bo), 'And for Friday?');
  const notice = 'Vibe has reached its limit of 2 replies a day here. Mention it to ask anyway.';
  await bo.page.getByText(notice).waitFor();
  await post(composer(bo), '@vibe what speaks for Monday?');
  await answers(bo, 'Vibe').nth(1).waitFor();
  await inspect(bo, 'channel-agent-limit');
});

test('the mention of an agent that is off is text', async () => {
  await openAgent(ada);
  assert.equal(await mode(ada, 'Every message').isChecked(), true);
  await mode(ada, 'Off').check();
  await save(ada);
  await button(bo.page, 'Agents reply when mentioned').waitFor();
  await general(bo);
  await start(bo).fill('@vibe hello there');
  await bo.page.getByText('Vibe is off in this channel').waitFor();
  await start(bo).press('Enter');
  await bo.page.getByRole('article').filter({ hasText: '@vibe hello there' }).waitFor();
  assert.equal(await answers(bo, 'Vibe').count(), 0);
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
