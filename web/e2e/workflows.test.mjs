// Workflows: recipes, the editor with the keyboard, errors, conflicts, runs, pauses, versions, and owners.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, box, button } from './lib/browser.mjs';
import { dialog, inspect, main, side, toast } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam({ bo: { theme: 'light' } });
const PAGE = '/northwind/automation/workflows';
const list = (p) => main(p).getByRole('list', { name: 'Workflows' });
const row = (p, name) => list(p).getByRole('listitem').filter({ hasText: name });
const act = (p, name, what) => row(p, name).getByRole('button', { name: `${what} ${name}` });
const item = (p, name) => p.page.getByRole('menuitem', { name, exact: true });
const step = (p, name) => main(p).getByRole('group', { name, exact: true });
const focused = (p, where) => where.and(p.page.locator(':focus')).waitFor();
const stored = async (name) => (await api(ada, 'GET', `workflows?name=${name}`)).data[0];
const idsOf = ({ steps }) => steps.map((s) => s.id);
const open = async (p) => {
  await p.page.goto(PAGE);
  await main(p).getByRole('heading', { name: 'Automation', level: 1 }).waitFor();
};
const edit = async (p, name) => {
  await open(p);
  await row(p, name).getByRole('link', { name, exact: true }).click();
  await main(p).getByRole('heading', { name, level: 1 }).waitFor();
};

test('the page is empty at first', async () => {
  await side(ada).getByRole('link', { name: 'Automation' }).click();
  await main(ada).getByText('No workflows yet. Start from a recipe.').waitFor();
  assert.equal(new URL(ada.page.url()).pathname, '/northwind/automation');
  await inspect(ada, 'workflows-none');
});

test('a workflow starts from a recipe', async () => {
  await button(ada.page, 'Start from a recipe').click();
  const recipes = dialog(ada).getByRole('list', { name: 'Recipes' }).getByRole('listitem');
  await recipes.nth(4).waitFor();
  assert.equal(await recipes.count(), 5);
  await inspect(ada, 'workflows-recipes');
  await recipes.getByRole('button', { name: /^review/ }).click();
  await main(ada).getByRole('heading', { name: 'New workflow', level: 2 }).waitFor();
  assert.equal(await box(ada.page, 'Name').inputValue(), 'review');
  const titles = ['Write the text', 'Correct the text', 'Approve the text', 'Publish'];
  for (const [n, title] of titles.entries()) await step(ada, `Step ${n + 1}: ${title}`).waitFor();
  await inspect(ada, 'workflows-recipe');
  await box(ada.page, 'Name').fill('proofread');
  await button(ada.page, 'Save').click();
  await toast(ada, 'Created');
  await main(ada).getByRole('heading', { name: 'proofread', level: 1 }).waitFor();
  const saved = await stored('proofread');
  assert.deepEqual([saved.version, idsOf(saved)], [1, ['write', 'correct', 'approve', 'publish']]);
  assert.equal(new URL(ada.page.url()).pathname, `${PAGE}/${saved.id}`);
});

test('a workflow with a deep dive opens in the editor', async () => {
  const agents = (await api(ada, 'GET', 'agents')).data;
  const vibe = agents.find((agent) => agent.name === 'vibe').id;
  await api(ada, 'POST', 'workflows', {
    name: 'review',
    description: 'Drafts a text in a deep dive, and posts the result.',
    default_agent_id: vibe,
    agents: [vibe],
    steps: [
      {
        id: 'draft',
        kind: 'fork',
        title: 'Draft and review',
        agent_ids: [vibe],
        goal: 'Write this: {{input}}',
      },
      {
        id: 'approve',
        kind: 'approval',
        title: 'Approve the draft',
        text: '{{steps.draft.output}}',
        who: 'requester',
      },
      { id: 'publish', kind: 'output', title: 'Publish', content: '{{steps.draft.output}}' },
    ],
  });
  await edit(ada, 'review');
  for (const name of ['Step 1: Draft and review', 'Step 2: Approve the draft', 'Step 3: Publish'])
    await step(ada, name).waitFor();
});

test('members read a workflow of someone else', async () => {
  await open(bo);
  await row(bo, 'review').getByText('Owned by Ada Lindholm').waitFor();
  assert.equal(await act(bo, 'review', 'Pause').count(), 0);
  await row(bo, 'review').getByRole('link', { name: 'review', exact: true }).click();
  await main(bo).getByRole('heading', { name: 'Workflow', level: 2, exact: true }).waitFor();
  assert.equal(await box(bo.page, 'Name').isDisabled(), true);
  assert.equal(await button(bo.page, 'Save').count(), 0);
  await accessible(bo.page, 'a workflow of someone else');
});

test('a step is added, uses an output, and moves with the keyboard', async () => {
  await button(ada.page, 'Add step').click();
  await item(ada, 'Ask an agent').click();
  await focused(ada, step(ada, 'Step 4: Ask Vibe'));
  const text = (n) => step(ada, `Step ${n}: Ask Vibe`).getByLabel('What to ask');
  await text(4).fill('Check this: ');
  await step(ada, 'Step 4: Ask Vibe').getByRole('button', { name: 'Insert variable' }).click();
  await item(ada, 'Input of the run').waitFor();
  await accessible(ada.page, 'the menu of variables');
  await item(ada, 'Output of step 1: Draft and review').click();
  assert.equal(await text(4).inputValue(), 'Check this: {{steps.draft.output}}');
  await text(4).press('Alt+ArrowUp');
  await focused(ada, text(3));
  await step(ada, 'Step 4: Publish').waitFor();
  const trigger = main(ada).getByRole('group', { name: 'Start on messages' });
  await trigger.getByLabel('Channel', { exact: true }).selectOption('#general');
  await trigger.getByLabel('Only new threads').check();
  await trigger.getByLabel('Words').fill('urgent\nfire');
  await inspect(ada, 'workflows-editor');
  await button(ada.page, 'Save').click();
  await toast(ada, 'Saved as version 2');
  const saved = await stored('review');
  assert.deepEqual(idsOf(saved), ['draft', 'approve', 'ask', 'publish']);
  assert.deepEqual(saved.on_message.words, ['urgent', 'fire']);
});

test('steps only jump forward, and errors of the server are at their field', async () => {
  await button(ada.page, 'Add step').click();
  await item(ada, 'Condition').click();
  const condition = (n) => step(ada, `Step ${n}: Condition`);
  await condition(5).press('Alt+ArrowUp');
  await condition(4).getByLabel('If this text').fill('{{input}}');
  await condition(4).getByLabel('Test', { exact: true }).selectOption('matches');
  await condition(4).getByLabel('Regular expression').fill('(');
  await condition(4).getByLabel('If so').selectOption('then step 5: Publish');
  await condition(4).press('Alt+ArrowDown');
  const back = 'Step 5 jumps back to step 4. Steps can only jump forward.';
  await condition(5).getByText(back).waitFor();
  await inspect(ada, 'workflows-jump');
  await button(ada.page, 'Save').click();
  await focused(ada, condition(5).getByLabel('If so'));
  await condition(5).press('Alt+ArrowUp');
  await main(ada).getByText(back).waitFor({ state: 'detached' });
  await button(ada.page, 'Save').click();
  await focused(ada, condition(4).getByLabel('Regular expression'));
  assert.equal(await condition(4).locator('[aria-invalid=true]').count(), 1);
  await condition(4).getByLabel('Regular expression').fill('(?i)\\burgent\\b');
  await button(ada.page, 'Save').click();
  await toast(ada, 'Saved as version 3');
  const { op, then, else: otherwise } = (await stored('review')).steps[3];
  assert.deepEqual([op, then, otherwise], ['matches', 'publish', 'end']);
});

test('a removed step hands its jumps to the next one', async () => {
  await step(ada, 'Step 5: Publish').getByRole('button', { name: 'Duplicate' }).click();
  await focused(ada, step(ada, 'Step 6: Publish'));
  await step(ada, 'Step 5: Publish').getByRole('button', { name: 'Remove' }).click();
  await focused(ada, step(ada, 'Step 5: Publish'));
  const jump = step(ada, 'Step 4: Condition').getByLabel('If so');
  assert.equal(await jump.inputValue(), 'publish_2');
  await button(ada.page, 'Discard').click();
  assert.equal(await jump.inputValue(), 'publish');
});

test('the person chooses between changes that were made in two windows', async () => {
  const { id } = await stored('review');
  await box(ada.page, 'Description').fill('By me');
  await api(ada, 'PATCH', `workflows/${id}`, { description: 'From elsewhere' });
  await main(ada).getByText('Version 4 was saved in the meantime').waitFor();
  await button(ada.page, 'Save').click();
  await main(ada).getByRole('heading', { name: 'You saved version 4 in the meantime' }).waitFor();
  await inspect(ada, 'workflows-conflict');
  assert.equal(await button(ada.page, 'Save choices').isDisabled(), true);
  const both = main(ada).getByRole('group', { name: 'Description' });
  await both.getByRole('radio', { name: 'Yours', exact: true }).check();
  await button(ada.page, 'Save choices').click();
  await toast(ada, 'Saved as version 5');
  assert.equal((await stored('review')).description, 'By me');
});

test('unsaved changes are kept until the person discards them', async () => {
  await box(ada.page, 'Name').fill('other');
  await main(ada).getByRole('link', { name: 'All workflows' }).click();
  await dialog(ada).getByText('Discard your changes?').waitFor();
  await button(ada.page, 'Stay').click();
  assert.equal(await box(ada.page, 'Name').inputValue(), 'other');
  await main(ada).getByRole('link', { name: 'All workflows' }).click();
  await dialog(ada).getByRole('button', { name: 'Discard', exact: true }).click();
  await row(ada, 'review').waitFor();
});

test('unsaved changes are restored after the session ends and after a reload, but not once discarded', async () => {
  const note = main(ada).getByRole('status').filter({ hasText: 'Your unsaved changes were restored.' });
  const prompt = step(ada, 'Step 1: Draft and review').getByLabel('Goal');
  const leave = async () => {
    await main(ada).getByRole('link', { name: 'All workflows' }).click();
    await dialog(ada).getByRole('button', { name: 'Discard', exact: true }).click();
    await row(ada, 'review').waitFor();
  };
  await edit(ada, 'review');
  const before = await prompt.inputValue();
  await box(ada.page, 'Description').fill('Not saved');
  await prompt.fill('Not saved, either.');
  await api(ada, 'POST', 'auth/logout');
  await box(ada.page, 'Email').fill('ada@example.com');
  await ada.page.getByLabel('Password', { exact: true }).fill('correct horse battery');
  await button(ada.page, 'Sign in').click();
  await note.waitFor();
  assert.equal(await box(ada.page, 'Description').inputValue(), 'Not saved');
  assert.equal(await prompt.inputValue(), 'Not saved, either.');
  await accessible(ada.page, 'restored changes of a workflow');
  await note.getByRole('button', { name: 'Discard' }).click();
  await note.waitFor({ state: 'detached' });
  assert.equal(await prompt.inputValue(), before);

  await prompt.fill('Again.');
  await leave();
  await edit(ada, 'review');
  await prompt.waitFor();
  assert.equal(await prompt.inputValue(), before);
  assert.equal(await note.count(), 0);

  await ada.page.goto(`${PAGE}/new`);
  await box(ada.page, 'Name').fill('later');
  await ada.page.reload();
  await note.waitFor();
  assert.equal(await box(ada.page, 'Name').inputValue(), 'later');
  await leave();
  await ada.page.goto(`${PAGE}/new`);
  await box(ada.page, 'Name').waitFor();
  assert.deepEqual([await box(ada.page, 'Name').inputValue(), await note.count()], ['', 0]);
  await open(ada);
});

test('a run starts with its input and opens', async () => {
  await act(ada, 'review', 'Run now').click();
  await box(ada.page, 'Input').fill('The fair is on Monday.');
  await dialog(ada).getByLabel('Channel', { exact: true }).selectOption('#general');
  await inspect(ada, 'workflows-run');
  await dialog(ada).getByRole('button', { name: 'Run now', exact: true }).click();
  await ada.page.waitForURL('**/northwind/automation/history/run_*');
  const [run] = (await api(ada, 'GET', 'runs')).data;
  assert.equal(new URL(ada.page.url()).pathname, `/northwind/automation/history/${run.id}`);
  assert.equal(run.input, 'The fair is on Monday.');
  await open(ada);
  await row(ada, 'review').getByText('Last run: ').waitFor();
  await inspect(ada, 'workflows-list');
});

test('a pause and its end show in every window', async () => {
  await open(bo);
  await act(ada, 'review', 'Pause').click();
  for (const p of [ada, bo]) await row(p, 'review').getByText('Paused.').waitFor();
  assert.equal(await act(bo, 'review', 'Run now').count(), 0);
  await act(ada, 'review', 'Resume').click();
  await act(bo, 'review', 'Run now').waitFor();
});

test('a workflow is archived, and comes back', async () => {
  await button(ada.page, 'Actions for review').click();
  await accessible(ada.page, 'the menu of a workflow');
  await item(ada, 'Archive').click();
  await row(ada, 'review').waitFor({ state: 'detached' });
  await button(ada.page, 'Archived').click();
  await act(ada, 'review', 'Unarchive').click();
  await act(ada, 'review', 'Run now').waitFor();
  assert.equal((await stored('review')).status, 'active');
});

test('the versions show their changes, and roll back', async () => {
  await open(ada);
  await button(ada.page, 'Actions for review').click();
  await item(ada, 'Versions').click();
  await main(ada).getByRole('heading', { name: 'History' }).waitFor();
  await ada.page.getByRole('checkbox', { name: /^Version 1 / }).check();
  const { version } = await stored('review');
  await main(ada).getByText(`From version 1 to ${version}`).waitFor();
  await main(ada).getByRole('heading', { name: 'Steps', exact: true }).waitFor();
  await inspect(ada, 'workflows-versions');
  await button(ada.page, 'Roll back to version 1').click();
  await dialog(ada)
    .getByText(`becomes version ${version + 1}`)
    .waitFor();
  await button(ada.page, 'Roll back').click();
  await toast(ada, 'Rolled back to version 1');
  await ada.page.getByRole('checkbox', { name: new RegExp(`^Version ${version + 1} `) }).waitFor();
  assert.deepEqual(idsOf(await stored('review')), ['draft', 'approve', 'publish']);
  await edit(ada, 'review');
  await step(ada, 'Step 3: Publish').waitFor();
});

test('steps that run at the same time have branches', async () => {
  await button(ada.page, 'Add step').click();
  await item(ada, 'At the same time').click();
  await step(ada, 'Step 5: Ask Vibe').waitFor();
  const branch = (n) => main(ada).getByRole('group', { name: `Branch ${n}`, exact: true });
  await branch(1).getByRole('button', { name: 'Add step' }).click();
  assert.equal(await item(ada, 'Deep dive').count(), 0);
  await item(ada, 'Post a message').click();
  await focused(ada, step(ada, 'Step 6: Post a message'));
  await step(ada, 'Step 6: Post a message').press('Alt+ArrowUp');
  await focused(ada, step(ada, 'Step 5: Post a message'));
  await main(ada).getByRole('button', { name: 'Add branch' }).click();
  await focused(ada, step(ada, 'Step 8: Ask Vibe'));
  await inspect(ada, 'workflows-branches');
  await main(ada).getByRole('button', { name: 'Remove branch 3' }).click();
  await branch(3).waitFor({ state: 'detached' });
  await button(ada.page, 'Discard').click();
  await step(ada, 'Step 4: At the same time').waitFor({ state: 'detached' });
});

test('an admin takes over a workflow whose owner can no longer post', async () => {
  await open(ada);
  const { channelId, member } = await known(ada);
  const general = channelId('general');
  const steps = [{ id: 'note', kind: 'output', content: 'Seen.' }];
  await api(bo, 'POST', 'workflows', { name: 'watch', on_message: { channel_id: general }, steps });
  await row(ada, 'watch').getByText('Owned by Bo Chen').waitFor();
  await api(ada, 'PATCH', `members/${member('Bo Chen').user_id}`, { role: 'viewer' });
  await api(ada, 'POST', `channels/${general}/threads`, { content: 'Is anybody there?' });
  const paused = 'Paused: Bo Chen can no longer post there or use the agent.';
  await row(ada, 'watch').getByText(paused).waitFor();
  await inspect(ada, 'workflows-paused');
  await ada.page.goto('/northwind/inbox');
  await main(ada).getByRole('link', { name: 'Review watch' }).click();
  await button(ada.page, 'Actions for watch').click();
  await item(ada, 'Take over').click();
  await row(ada, 'watch').getByText('Owned by you').waitFor();
  const { status, paused_reason } = await stored('watch');
  assert.deepEqual([status, paused_reason], ['active', null]);
});
