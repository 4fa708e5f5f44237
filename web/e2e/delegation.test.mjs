// Delegation between agents: which agents are working, their briefs, and their limits.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { box, button, inviteLink, joinBy, person, reply, startThread } from './lib/browser.mjs';
import { answers, composer, dialog, inspect, main } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';
import { fn, ToolServer } from './lib/tool-server.mjs';

const remote = await new ToolServer().start();
after(() => remote.close());
const { server, browser, model, ada, bo } = await startTeam({
  model: true,
  env: { OPENVIBE_MCP_ALLOW: '127.0.0.1' },
  bo: { theme: 'light' },
});
const eve = await person(browser, server.base);
after(() => eve.close());
const TITLE = 'Create an issue';
const FACT = 'The zebra budget is 40 euros.';
const PLAN = 'plan it';
const work = (p) => p.page.getByRole('region', { name: 'Agents at work' }).last();
const lead = (p) => answers(p, 'Lead').last();
const chip = (p, words) => main(p).getByText(words).first();
const showWork = async (p) => {
  await work(p).getByRole('button', { name: 'Show work' }).click();
  return dialog(p).getByRole('tree', { name: 'Agents and steps' }).getByRole('treeitem');
};
const closeWork = (p) => dialog(p).getByRole('button', { name: 'Close', exact: true }).click();
let leadId;

/** Starts a thread as Bo, and opens it for the others, too. */
async function newThread() {
  await bo.page.goto('/northwind/c/general');
  await startThread(bo.page, FACT);
  for (const p of [ada, eve]) {
    await p.page.goto(new URL(bo.page.url()).pathname);
    await composer(p).waitFor();
  }
}

before(async () => {
  await joinBy(eve.page, await inviteLink(ada.page), { name: 'Eve Park', email: 'eve@example.com' });
  remote.tools = [fn('create_issue', 'Creates an issue')];
  const form = { kind: 'mcp', name: 'jira', title: 'Jira', config: { url: remote.url, auth: 'none' } };
  const { id } = await api(ada, 'POST', 'tools', form);
  const { functions } = await api(ada, 'POST', `tools/${id}/refresh`);
  const { definition_hash } = functions[0];
  const accepted = { definition_hash, effect: 'write', risk: 'approve', title: TITLE };
  await api(ada, 'PUT', `tools/${id}/functions/create_issue`, accepted);
  const add = (name, display_name, tools) =>
    api(ada, 'POST', 'agents', { name, display_name, instructions: `You are ${display_name}.`, tools });
  await add('tester', 'Tester', []);
  await add('sage', 'Sage', [{ type: 'mcp', registry_id: id }]);
  leadId = (await add('lead', 'Lead', [{ type: 'delegate' }])).id;

  const note = {
    agent: 'coder',
    message: 'Draft the note, and hold it.',
    facts: [FACT, 'The press waits outside.'],
    constraints: ['At most two sentences.'],
    output: 'Plain text.',
  };
  const check = { agent: 'tester', message: 'Check the plan, and hold it.' };
  model.calls.set(PLAN, ['Let me ask.', 'delegate', note, 'delegate', check]);
  model.answers.set(PLAN, 'The note is ready, and the plan is fine.');
  model.answers.set('Draft the note', 'We launch on Monday.');
  model.answers.set('Check the plan', 'The plan is fine, and short enough.');
  model.calls.set('ask sage', ['', 'delegate', { agent: 'sage', message: 'Please file it.' }]);
  model.answers.set('ask sage', 'Sage filed it.');
  model.calls.set('file it', ['', 'jira__create_issue', { summary: 'Offline sync' }]);
  model.answers.set('file it', 'It is ABC-1.');
  await newThread();
});

test('everyone sees the agents at work, and the caller waits for them', async () => {
  await reply(bo.page, `@lead ${PLAN}`);
  for (const p of [ada, bo]) {
    await work(p)
      .getByText(/^Coder writing \d+ s · Tester writing \d+ s$/)
      .waitFor();
    await chip(p, /^Waiting for Coder and Tester · \d+ s$/).waitFor();
  }
  await ada.page.reload();
  await work(ada)
    .getByText(/^Coder writing \d+ s · Tester writing \d+ s$/)
    .waitFor();
  // The model server holds the replies of both agents.
  for (const text of ['Draft the note', 'Check the plan'])
    await model.until((body) => String(body.messages.at(-1).content).includes(text));
  model.release();
  for (const p of [ada, bo]) {
    await lead(p).getByText('The note is ready, and the plan is fine.').waitFor();
    await work(p).getByText('Coder done · Tester done').waitFor();
    assert.equal(await answers(p, 'Coder').count(), 0);
  }
  await ada.page.reload();
  await work(ada).getByText('Coder done · Tester done').waitFor();
  await inspect(bo, 'delegation-done');
});

test('the work is a tree, with what each agent got', async () => {
  const steps = await showWork(bo);
  await steps.nth(2).waitFor();
  for (const [at, label] of [
    [0, /^Lead, done in /],
    [1, /^Coder, asked by Lead, done in /],
    [2, /^Tester, asked by Lead, done in /],
  ])
    assert.match(await steps.nth(at).textContent(), label);
  await steps.first().press('ArrowRight');
  await bo.page.keyboard.press('Tab');
  await bo.page.keyboard.press('Enter');
  const given = dialog(bo).getByRole('region', { name: 'What Lead gave Coder', exact: true });
  await given.waitFor();
  assert.deepEqual(await given.getByRole('heading', { level: 4 }).allTextContents(), [
    'Request',
    'Facts',
    'Constraints',
    'Wanted answer',
    'Answer',
  ]);
  const fact = (text) => given.getByRole('listitem').filter({ hasText: text });
  await fact('The press waits outside.').getByText('No source').waitFor();
  await given.getByText('We launch on Monday.').waitFor();
  await inspect(bo, 'delegation-work');
  await fact(FACT).getByRole('button', { name: 'Source' }).first().click();
  await dialog(bo).waitFor({ state: 'detached' });
  assert.match(bo.page.url(), /#m-msg_/);
});

test('the reply has a step for each question, with its answer', async () => {
  await lead(bo).getByRole('button', { name: '2 steps', exact: true }).click();
  await lead(bo)
    .getByRole('button', { name: /^Asked Coder/ })
    .click();
  const answer = lead(bo).getByRole('region', { name: 'Answer from Coder' });
  assert.equal(await answer.textContent(), 'We launch on Monday.');
  // The toolbar of a focused message covers the content above it.
  await bo.page.evaluate(() => document.activeElement.blur());
  await inspect(bo, 'delegation-step');
  // After a reload, the steps also have a "Show work" button.
  await bo.page.reload();
  await lead(bo).getByRole('button', { name: '2 steps', exact: true }).click();
  await lead(bo).getByRole('button', { name: 'Show work' }).click();
  await dialog(bo).getByRole('treeitem').nth(2).waitFor();
  await closeWork(bo);
});

test('Stop all ends the work and its caller', async () => {
  await reply(bo.page, `@lead ${PLAN} again`);
  await work(ada)
    .getByText(/^Coder writing \d+ s · Tester writing \d+ s$/)
    .waitFor();
  await work(ada).getByRole('button', { name: 'Stop all' }).click();
  for (const p of [ada, bo]) await work(p).getByText('Coder stopped · Tester stopped').waitFor();
  await lead(bo).getByText('Stopped', { exact: true }).first().waitFor();
});

test('an approval is below the message, and afterwards the brief is hidden from others', async () => {
  await newThread();
  await reply(bo.page, '@lead ask sage');
  const card = bo.page.getByRole('article', { name: `Approval: ${TITLE}`, exact: true });
  await card.getByText('Sage wants to do this in Jira for you.').waitFor();
  await work(bo).getByText('Sage waiting for approval').waitFor();
  await chip(bo, /^Waiting for Sage · \d+ s$/).waitFor();
  await chip(eve, `Waiting for Bo Chen to approve: ${TITLE}`).waitFor();
  await inspect(bo, 'delegation-approval');
  await card.getByRole('button', { name: 'Approve', exact: true }).click();
  for (const p of [bo, eve]) await lead(p).getByText('Sage filed it.').waitFor();
  assert.equal(remote.calls.length, 1);
  for (const [p, words] of [
    [bo, 'Please file it.'],
    [eve, /^Hidden because this work used an external tool/],
  ]) {
    await showWork(p);
    await dialog(p).getByRole('button', { name: 'What Sage got' }).click();
    await dialog(p).getByRole('region', { name: 'What Lead gave Sage' }).getByText(words).waitFor();
    await inspect(p, `delegation-${p === bo ? 'shown' : 'hidden'}`);
    await closeWork(p);
  }
});

test('the editor sets whom an agent can ask, and the limits', async () => {
  await ada.page.goto(`/northwind/settings/agents/${leadId}/edit`);
  const section = (name) => ada.page.locator('form').getByRole('button', { name: new RegExp(`^${name}`) });
  await section('Asking other agents').click();
  const asks = ada.page.getByRole('group', { name: 'It can ask' });
  await asks.getByRole('checkbox', { name: 'Coder' }).check();
  await asks.getByRole('checkbox', { name: 'Tester' }).check();
  await ada.page.getByLabel('What they get').selectOption('conversation');
  await ada.page.getByLabel('Maximum rounds with delegation').fill('11');
  await main(ada).getByText('1 to 10', { exact: true }).waitFor();
  await ada.page.getByLabel('Maximum rounds with delegation').fill('3');
  await ada.page.getByLabel('Maximum cost').fill('0.5');
  await section('Role in the team').click();
  await ada.page.getByRole('checkbox', { name: /^Orchestrator/ }).check();
  await box(ada.page, 'Delegation rules').fill('Ask Coder about code.');
  await inspect(ada, 'delegation-editor');
  await button(ada.page, 'Save').click();
  await ada.page.getByText('Saved as version 2').first().waitFor();
  const saved = await api(ada, 'GET', `agents/${leadId}`);
  const [tool] = saved.tools;
  assert.deepEqual(
    [tool.agents, tool.context, tool.rounds_max, tool.usd_max, tool.available],
    [['coder', 'tester'], 'conversation', 3, 0.5, true],
  );
  assert.deepEqual([saved.role, saved.agency.delegation_rules], ['orchestrator', ['Ask Coder about code.']]);
  assert.deepEqual(saved.not_in_force, []);
});

test('no page logged an error', () => {
  for (const p of [ada, bo, eve]) assert.deepEqual(p.errors, []);
});
