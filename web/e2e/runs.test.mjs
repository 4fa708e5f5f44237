// Runs of workflows: how people start them, the line in a thread, the pages of runs, approvals, stops, and failures.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { box, button, message, startThread } from './lib/browser.mjs';
import { answers, composer, dialog, inspect, main, option, side, toast } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { ada, bo, model } = await startTeam({ model: true, bo: { theme: 'light' } });
const PAGE = '/northwind/automation/history';
const ANSWER = 'We launch on Monday, after two quiet days.';
const line = (p, text) => p.page.getByRole('region', { name: text });
const table = (p) => main(p).getByRole('table', { name: 'Runs' });
/** Rows of the table, without the header. */
const rows = (p) => table(p).locator('tbody').getByRole('row');
const steps = (p) => main(p).getByRole('list', { name: 'Steps' }).getByRole('listitem');
const card = (p, title) => p.page.getByRole('article', { name: `Approval: ${title}`, exact: true });
const filter = (p, name) => main(p).getByLabel(name, { exact: true });
const flows = {};
let path;
let general;

/** Types Ada's command in the thread and sends it. */
async function command(text) {
  await composer(ada).fill('');
  await composer(ada).focus();
  await ada.page.keyboard.type(text);
  await ada.page.keyboard.press('Enter');
}
/** Opens the thread again. */
async function openThread(p = ada) {
  await p.page.goto(path);
  await composer(p).waitFor();
}

before(async () => {
  const add = async (name, list, description = '') =>
    (flows[name] = (await api(ada, 'POST', 'workflows', { name, description, steps: list })).id);
  const review = [
    { id: 'announce', kind: 'output', title: 'Announce', content: 'A review of {{input}}' },
    { id: 'draft', kind: 'agent', title: 'Ask Vibe', prompt: 'Please hold the draft of it', post: true },
    {
      id: 'approve',
      kind: 'approval',
      title: 'Approve the draft',
      text: 'Publish this? {{steps.draft.output}}',
      who: 'requester',
    },
    { id: 'publish', kind: 'output', title: 'Publish', content: 'Published: {{steps.draft.output}}' },
  ];
  await add('review', review, 'Drafts and publishes');
  await add('count', [
    { id: 'ask', kind: 'agent', title: 'Ask Vibe', prompt: 'Count the chairs in {{input}}' },
    { id: 'post', kind: 'output', content: 'Counted: {{steps.ask.output}}' },
  ]);
  await add('note', [{ id: 'post', kind: 'output', content: 'Noted: {{input}}' }]);
  await add('ask', [{ id: 'ask', kind: 'approval', title: 'Go on?', text: 'Go on?', who: 'requester' }]);
  const same = { kind: 'condition', value: 'a', op: 'equals', with: 'a', then: 'end', else: 'end' };
  for (const n of [1, 2, 3]) await add(`quick-${n}`, [{ id: 'same', ...same }]);
  general = (await known(ada)).channelId('general');
  model.answers.set('hold the draft', ANSWER);
  await startThread(ada.page, 'The plan is Monday.');
  path = new URL(ada.page.url()).pathname;
});

test('the page is empty at first', async () => {
  await side(ada).getByRole('link', { name: 'Automation' }).click();
  await main(ada).getByRole('link', { name: 'History' }).click();
  await main(ada).getByRole('heading', { name: 'Automation', level: 1 }).waitFor();
  await main(ada).getByText('No runs yet').waitFor();
  assert.equal(new URL(ada.page.url()).pathname, PAGE);
  await inspect(ada, 'runs-none');
});

test('/run completes the name and starts a run, which everyone in the thread can follow', async () => {
  for (const p of [ada, bo]) await openThread(p);
  await composer(ada).focus();
  await ada.page.keyboard.type('/run rev');
  await option(ada, /^review/).waitFor();
  await inspect(ada, 'runs-command');
  await composer(ada).focus();
  await composer(ada).fill('/run rev');
  await option(ada, /^review/).waitFor();
  await ada.page.keyboard.press('Enter');
  assert.equal(await composer(ada).inputValue(), '/run review ');
  await ada.page.keyboard.type('the launch');
  await ada.page.keyboard.press('Enter');
  await toast(ada, 'Started review');
  for (const p of [ada, bo]) {
    await message(p.page, 'A review of the launch').waitFor();
    await line(p, 'review · step 2 of 4 · Ask Vibe').waitFor();
  }
  assert.equal(await composer(ada).inputValue(), '');
});

test('a reload in the middle keeps the line', async () => {
  await answers(ada, 'Vibe').filter({ hasText: 'We launch' }).waitFor();
  await ada.page.reload();
  await line(ada, 'review · step 2 of 4 · Ask Vibe').waitFor();
  await inspect(ada, 'runs-thread');
  model.release();
});

test('the run waits for an approval, in the thread, on its page, and in the inbox', async () => {
  for (const p of [ada, bo]) await line(p, 'review · step 3 of 4 · Approve the draft').waitFor();
  await main(bo).getByText('Waiting for Ada Lindholm to approve: Approve the draft').waitFor();
  await card(ada, 'Approve the draft')
    .getByText('A workflow that runs for you needs your approval to go on.')
    .waitFor();
  await card(ada, 'Approve the draft').getByText(`Publish this? ${ANSWER}`).waitFor();
  await inspect(ada, 'runs-approval');
  await line(ada, /^review · step/)
    .getByRole('link', { name: 'Show run' })
    .click();
  await main(ada).getByText('review · step 3 of 4 · Approve the draft · waits for you').waitFor();
  const here = new URL(ada.page.url()).pathname;
  await bo.page.goto(here);
  await main(bo).getByText('review · step 3 of 4 · Approve the draft · waits for Ada Lindholm').waitFor();
  await button(bo.page, 'Stop all').waitFor();
  assert.equal(await button(bo.page, 'Read and approve').count(), 0);
  await button(ada.page, 'Read and approve').click();
  const text = card(ada, 'Approve the draft');
  assert.ok(await text.evaluate((shown) => shown === document.activeElement));
  await text.getByText(`Publish this? ${ANSWER}`).and(text.locator('.prose p')).waitFor();
  await text.getByRole('button', { name: 'Show as text' }).click();
  await text.getByRole('cell', { name: `Publish this? ${ANSWER}` }).waitFor();
  await text.getByRole('button', { name: 'Show as message' }).click();
  assert.equal(await steps(ada).count(), 4);
  await steps(ada).nth(0).getByText('A review of the launch').waitFor();
  await steps(ada).nth(1).getByText(ANSWER).waitFor();
  await steps(ada).nth(3).getByText('Not started').waitFor();
  await inspect(ada, 'runs-detail');
  await button(ada.page, 'Show work').click();
  await dialog(ada)
    .getByRole('treeitem', { name: /^Vibe, step draft, done in / })
    .waitFor();
  await dialog(ada).getByRole('button', { name: 'Close', exact: true }).click();
  await steps(ada)
    .nth(1)
    .getByRole('link', { name: /^Open the reply/ })
    .click();
  await message(ada.page, ANSWER).first().waitFor();
  assert.match(ada.page.url(), /#m-msg_/);

  await side(ada)
    .getByRole('link', { name: /^Inbox/ })
    .click();
  await card(ada, 'Approve the draft')
    .getByRole('link', { name: /^Show run/ })
    .waitFor();
  await inspect(ada, 'runs-inbox');
  await card(ada, 'Approve the draft').getByRole('button', { name: 'Approve', exact: true }).click();
  await main(bo).getByText('Completed', { exact: true }).waitFor();
  await steps(bo).nth(3).getByText(`Published: ${ANSWER}`).waitFor();
  await steps(bo)
    .nth(2)
    .getByText(/Approved by Ada Lindholm/)
    .waitFor();
  for (const p of [ada, bo]) {
    await openThread(p);
    await message(p.page, `Published: ${ANSWER}`).waitFor();
    assert.equal(await line(p, /^Workflow/).count(), 0);
  }
});

test('anyone in the thread can stop a run', async () => {
  await command('/run review the fair');
  for (const p of [ada, bo]) await line(p, 'review · step 2 of 4 · Ask Vibe').waitFor();
  await answers(bo, 'Vibe').filter({ hasText: 'We launch' }).last().waitFor();
  await button(bo.page, 'Stop all').click();
  for (const p of [ada, bo]) await line(p, /^review · step/).waitFor({ state: 'detached' });
  model.release();
  await ada.page.goto(PAGE);
  await rows(ada).first().getByText('Stopped').waitFor();
  await rows(ada).nth(1).getByText('Completed').waitFor();
  await inspect(ada, 'runs-list');
});

test('a message’s menu starts a run, and a failed run resumes with the step that failed', async () => {
  model.refused.add('chairs');
  for (const p of [ada, bo]) await openThread(p);
  await message(ada.page, 'The plan is Monday.').first().hover();
  await message(ada.page, 'The plan is Monday.')
    .first()
    .getByRole('button', { name: 'More actions' })
    .click();
  await ada.page.getByRole('menuitem', { name: 'Start a workflow…' }).click();
  await dialog(ada).getByLabel('Workflow', { exact: true }).selectOption('count');
  assert.equal(await box(ada.page, 'Input (optional)').inputValue(), '');
  await box(ada.page, 'Input (optional)').fill('the hall');
  await inspect(ada, 'runs-dialog');
  await dialog(ada).getByRole('button', { name: 'Run', exact: true }).click();
  await toast(ada, 'Started count');
  for (const p of [ada, bo])
    await main(p)
      .getByText(/^Workflow count stopped at step 1, Ask Vibe: /)
      .waitFor();
  await inspect(ada, 'runs-notice');
  await main(ada).getByRole('link', { name: 'Show run' }).click();
  await main(ada)
    .getByText(/^Workflow count stopped at step 1, Ask Vibe: /)
    .waitFor();
  await inspect(ada, 'runs-failed');
  model.refused.clear();
  model.answers.set('chairs', 'Forty chairs.');
  await button(ada.page, 'Resume from step 1').click();
  await main(ada).getByText('Completed', { exact: true }).waitFor();
  await steps(ada).nth(0).getByText('Forty chairs.').waitFor();
  await message(bo.page, 'Counted: Forty chairs.').waitFor();
});

test('a channel’s composer starts a run in a new thread', async () => {
  await ada.page.goto('/northwind/c/general');
  await box(ada.page, 'Start a thread in #general').fill('/run note the date');
  await ada.page.keyboard.press('Enter');
  await toast(ada, 'Started note');
  await main(ada).getByText('Noted: the date').first().waitFor();
});

test('what cannot be started stays in the composer', async () => {
  await openThread();
  await api(ada, 'PATCH', `workflows/${flows.count}`, { status: 'paused' });
  await command('/run count');
  await toast(ada, /paused/);
  assert.equal(await composer(ada).inputValue(), '/run count');
  await command('/run nothing');
  await toast(ada, 'no workflow is named “nothing”');
  for (let n = 0; n < 10; n++) await api(ada, 'POST', `workflows/${flows.ask}/runs`, { channel_id: general });
  await command('/run ask');
  await toast(ada, /10 active runs/);
  assert.equal(await composer(ada).inputValue(), '/run ask');
  await composer(ada).fill('');
});

test('the list has filters, and follows what happens', async () => {
  await ada.page.goto(PAGE);
  await filter(ada, 'Workflow').selectOption('ask');
  await filter(ada, 'Status').selectOption('Waiting');
  // Until the filtered list has loaded, all runs are shown.
  await rows(ada).nth(10).waitFor({ state: 'detached' });
  await rows(ada).nth(9).waitFor();
  assert.equal(await rows(ada).count(), 10);
  await ada.page.reload();
  await rows(ada).nth(9).waitFor();
  const { data } = await api(ada, 'GET', `runs?workflow_id=${flows.ask}&status=waiting`);
  for (const run of data) await api(ada, 'POST', `runs/${run.id}/cancel`);
  await main(ada).getByText('No matching runs').waitFor();
  await button(ada.page, 'Show all runs').click();
  await rows(ada).first().waitFor();
});

test('older runs follow page by page', async () => {
  for (const n of [1, 2, 3])
    for (let i = 0; i < 9; i++) await api(ada, 'POST', `workflows/${flows[`quick-${n}`]}/runs`, {});
  await ada.page.goto(PAGE);
  for (const last of [19, 39]) {
    await rows(ada).nth(last).waitFor();
    await rows(ada).nth(last).scrollIntoViewIfNeeded();
  }
  const { data } = await api(ada, 'GET', 'runs?limit=100');
  await rows(ada)
    .nth(data.length - 1)
    .waitFor();
  assert.equal(await rows(ada).count(), data.length);
});

test('no page logged an error', () => {
  for (const p of [ada, bo]) assert.deepEqual(p.errors, []);
});
