// The page of what an agent is told: its sources in a conversation, from the server's dry run.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, box, button, person, PHONE, shot, startThread } from './lib/browser.mjs';
import { agentTab, editLink, inspect, main, threadId, toast } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { ada, bo, browser, server } = await startTeam({ model: true, bo: { theme: 'light' } });
const AGENTS = '/northwind/settings/agents';
const { channelId } = await known(ada);
const { data: agents } = await api(ada, 'GET', 'agents');
const vibe = agents.find((a) => a.name === 'vibe');
const page = `${AGENTS}/${vibe.id}/told`;
const dryRun = (place) => api(ada, 'GET', `${place}/context?agent_id=${vibe.id}`);
const row = (p, name) => main(p).getByRole('row', { name: new RegExp(`^${name}`) });
const cell = (p, name, text) => row(p, name).getByRole('cell', { name: text, exact: true });
const shown = (n) => n.toLocaleString('en-US');
const sum = (p) => main(p).getByText(/before the conversation/);
const more = (p) => main(p).getByRole('button', { name: /more (is|are) empty or off$/ });

test('the rows and the sum are those of the dry run, and the editor shows the same figure', async () => {
  await ada.page.goto(page);
  await main(ada).getByRole('heading', { name: 'What Vibe is told' }).waitFor();
  const { sources, budget } = await dryRun(`channels/${channelId('general')}`);
  const tools = sources.find((s) => s.name === 'tools').tokens;
  const left = budget.context_window - budget.reserve - budget.used;
  const before = `${shown(budget.used - tools)} tokens before the conversation · ${shown(tools)} for tools`;
  assert.equal(await sum(ada).innerText(), `${before} · ${shown(left)} left`);
  const sent = sources.filter((s) => s.state === 'sent');
  assert.equal(await main(ada).getByRole('row').count(), sent.length + 1);
  assert.equal(await more(ada).innerText(), `${sources.length - sent.length} more are empty or off`);
  const instructions = sources.find((s) => s.name === 'instructions');
  await cell(ada, 'Instructions', 'Vibe').waitFor();
  await cell(ada, 'Instructions', shown(instructions.tokens)).waitFor();
  await button(ada.page, 'Show Instructions').click();
  const text = ada.page.getByRole('region', { name: 'Text of Instructions' });
  assert.equal((await text.innerText()).trim(), instructions.text.trim());
  await more(ada).click();
  await inspect(ada, 'told');
  await agentTab(ada, 'Overview').click();
  await editLink(ada).click();
  await main(ada).getByText(before, { exact: true }).waitFor();
});

test('programs are told less, and nothing about a conversation', async () => {
  await ada.page.goto(page);
  await row(ada, 'Time and requester').waitFor();
  await button(ada.page, 'To programs').click();
  await row(ada, 'Time and requester').waitFor({ state: 'detached' });
  await row(ada, 'Instructions').waitFor();
  assert.doesNotMatch(await sum(ada).innerText(), /left/);
});

test('a source that is off is turned on, and is sent from then on', async () => {
  await ada.page.goto(page);
  await more(ada).click();
  await cell(ada, 'About the workspace', 'Off for the workspace').waitFor();
  const { workspace } = await api(ada, 'GET', 'snapshot');
  await api(ada, 'PATCH', `workspaces/${workspace.id}/policy`, {
    workspace_context: { text: 'We sell kayaks.' },
  });
  await button(ada.page, 'Turn on About the workspace').click();
  await toast(ada, 'Saved. The next reply uses it.');
  await button(ada.page, 'Show About the workspace').click();
  await ada.page
    .getByRole('region', { name: 'Text of About the workspace' })
    .getByText('We sell kayaks.')
    .waitFor();
  const { sources } = await dryRun(`channels/${channelId('general')}`);
  assert.equal(sources.find((s) => s.name === 'workspace').state, 'sent');
});

test('a member sees the same sources without switches that are not theirs', async () => {
  await bo.page.goto(page);
  await row(bo, 'About the workspace').waitFor();
  await more(bo).click();
  await cell(bo, 'Adaptation', 'Off for the workspace').waitFor();
  assert.equal(await main(bo).getByText('Turn on').count(), 0);
});

test('files of the agent are edited on the page, and the table follows', async () => {
  await ada.page.goto(page);
  await more(ada).click();
  await cell(ada, 'Working rules', 'Empty').waitFor();
  await button(ada.page, 'Edit Working rules').click();
  await box(ada.page, 'AGENTS.md').fill('Answer in two sentences.');
  await button(ada.page, 'Save file').click();
  await toast(ada, 'AGENTS.md saved');
  await button(ada.page, 'Show Working rules').click();
  const text = ada.page.getByRole('region', { name: 'Text of Working rules' });
  await text.getByText('Answer in two sentences.').waitFor();
});

test('from a thread, the page starts with this thread', async () => {
  await ada.page.goto('/northwind/c/general');
  await startThread(ada.page, 'Where do the kayaks go in winter?');
  const thread = threadId(ada);
  await ada.page.getByRole('button', { name: 'Vibe', exact: true }).first().click();
  await ada.page.getByRole('link', { name: 'What Vibe is told' }).click();
  assert.equal(new URL(ada.page.url()).searchParams.get('in'), thread);
  await row(ada, 'Messages').waitFor();
  const choice = ada.page.getByLabel('In', { exact: true });
  assert.equal(await choice.locator('option:checked').innerText(), 'Where do the kayaks go in winter?');
  await choice.selectOption({ label: '#random' });
  await row(ada, 'Messages').waitFor({ state: 'detached' });
  assert.equal(new URL(ada.page.url()).searchParams.get('in'), channelId('random'));
});

test('admins choose how early long conversations are shortened, for all agents and for one', async () => {
  const choice = (p) => p.page.getByLabel('Shorten long conversations');
  await ada.page.goto('/northwind/settings/told');
  assert.equal(await choice(ada).locator('option:checked').innerText(), 'Standard');
  const saved = ada.page.waitForResponse((r) => r.request().method() === 'PATCH');
  await choice(ada).selectOption('Early');
  assert.equal((await (await saved).json()).compaction.default, 'aggressive');
  await bo.page.goto('/northwind/settings/told');
  assert.equal(await choice(bo).locator('option:checked').innerText(), 'Early');
  assert.ok(await choice(bo).isDisabled());
  await ada.page.goto(`${AGENTS}/${vibe.id}/edit`);
  await main(ada)
    .getByRole('button', { name: /^Character and style/ })
    .click();
  assert.equal(await choice(ada).locator('option:checked').innerText(), 'As in the workspace');
  await choice(ada).selectOption('Off');
  await inspect(ada, 'told-shorten');
  await button(ada.page, 'Save').click();
  await toast(ada, /^Saved as version/);
  assert.equal((await api(ada, 'GET', `agents/${vibe.id}`)).prompting.compaction, 'off');
});

test('the page fits a phone', async () => {
  const phone = await person(browser, server.base, { viewport: PHONE, touch: true });
  await phone.context.addCookies(await ada.context.cookies());
  await phone.page.goto(page);
  await row(phone, 'Instructions').getByText('Vibe · Sent').waitFor();
  await more(phone).click();
  await accessible(phone.page, 'what an agent is told, on a phone');
  await shot(phone.page, 'told-phone');
  assert.deepEqual([...ada.errors, ...bo.errors, ...phone.errors], []);
});
