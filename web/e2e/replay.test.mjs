// Recent replies of an agent, written again with the unsaved changes of its draft.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { box, button, reply, startThread } from './lib/browser.mjs';
import { agentCard, agentTab, answers, editLink, inspect, main, threadId } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, model } = await startTeam({ model: true, bo: null });
const AGENTS = '/northwind/settings/agents';
const START = 'Try on recent tasks';
const QUESTION = 'is the build fine?';
const table = (p) => main(p).getByRole('table', { name: 'Replay' });
const cell = (p, name) => table(p).locator(`td[data-name="${name}"]`);

/** Opens "Test on past questions" of Coder. With `instructions`, they are changed first and not saved. */
async function open(p, instructions = '') {
  await p.page.goto(AGENTS);
  await agentCard(p, 'Coder').getByRole('link').click();
  if (instructions) {
    await editLink(p).click();
    await box(p.page, 'Instructions').fill(instructions);
  }
  await agentTab(p, 'Try it').click();
  await main(p)
    .getByRole('button', { name: /^Test on past questions/ })
    .click();
}

test('a recent reply is shown beside the one of the draft, and nothing is posted', async () => {
  await startThread(ada.page, 'The build');
  await reply(ada.page, `@coder ${QUESTION}`);
  await answers(ada, 'Coder').getByText('green').waitFor();
  const messages = `threads/${threadId(ada)}/messages`;
  const posted = (await api(ada, 'GET', messages)).data.length;
  model.answers.set(QUESTION, 'Green since Monday.');
  await open(ada, 'You are Coder, and brief.');
  await main(ada)
    .getByText(/^1 task, about /)
    .waitFor();
  await button(ada.page, START).click();
  await table(ada).getByText('Green since Monday.').waitFor();
  assert.match(await cell(ada, 'Then').innerText(), /The build is \*\*green\*\*\./);
  assert.match(await table(ada).getByRole('rowheader').innerText(), /is the build fine\?/);
  const sent = model.asked.at(-1).messages;
  assert.match(sent[0].content, /You are Coder, and brief\./);
  assert.equal((await api(ada, 'GET', messages)).data.length, posted);
  await inspect(ada, 'replay');
});

test('a tool call is shown and not run', async () => {
  const { data } = await api(ada, 'GET', 'agents?name=coder');
  const tools = [{ type: 'file_search' }];
  await api(ada, 'PATCH', `agents/${data[0].id}`, { tools });
  model.calls.set(QUESTION, ['', 'search_messages', { query: 'build' }]);
  await open(ada);
  await button(ada.page, START).click();
  await table(ada).getByText('Would call search_messages').waitFor();
  assert.deepEqual((await api(ada, 'GET', 'actions')).data, []);
  model.calls.clear();
});

test('a running replay shows its progress and can be stopped', async () => {
  const { data } = await api(ada, 'GET', 'tasks?order=newest&limit=100');
  const { thread_id } = data.find((task) => task.kind === 'reply');
  const asked = { content: '@coder hold the line' };
  const { tasks } = await api(ada, 'POST', `threads/${thread_id}/messages`, asked);
  const isDone = async () => (await api(ada, 'GET', `tasks/${tasks[0].id}`)).status === 'completed';
  while (!(await isDone())) {
    model.release();
    await ada.page.waitForTimeout(50);
  }
  await open(ada);
  await button(ada.page, START).click();
  await main(ada).getByText('1 of 2 done').waitFor();
  await inspect(ada, 'replay-running');
  await button(ada.page, 'Stop').click();
  await table(ada).getByText('Stopped').waitFor();
  assert.equal(await button(ada.page, 'Stop').count(), 0);
});

test('without a model, the button is disabled with a reason', async () => {
  const { ada: ann } = await startTeam({ bo: null });
  await open(ann);
  await main(ann).getByText('Needs a model').waitFor();
  assert.equal(await button(ann.page, START).isDisabled(), true);
  await inspect(ann, 'replay-offline');
  assert.deepEqual(ann.errors, []);
});

test('no page logged an error', () => {
  assert.deepEqual(ada.errors, []);
});
