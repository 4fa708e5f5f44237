// @vitest-environment happy-dom
import { fireEvent, screen as page, waitFor, within } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';
import type { Action } from '../api/actions';
import type { CodeSession } from '../api/code';
import type { DroppableFrame } from '../api/events';
import { actionsOf } from '../approvals/actions.svelte';
import Conversation from '../components/Conversation.svelte';
import { AT, fromAgent, message, task } from '../test/make';
import { action, announced, waiting } from '../test/make-actions';
import { CodeRoutes, codeSession, repository, step } from '../test/make-code';
import { Screen } from '../test/screen';
// Loaded before the tests, because the first load takes a while.
import './ChangesCard.svelte';
import './CodeParts.svelte';
import './EditText.svelte';
import './QuestionCard.svelte';

const screen = new Screen();
const card = () => page.findByRole('article', { name: 'Changes: api' });
const button = (name: string) => page.findByRole('button', { name });

const push = (x: Partial<Action> = {}): Action =>
  action({
    name: 'push',
    function: 'push',
    title: 'Push vibe/123',
    tool: null,
    grantable: false,
    arguments: {
      repository: 'api',
      branch: 'vibe/123',
      tree: 't1',
      title: 'Add sums',
      body: 'They were <b>missing</b>.',
    },
    ...x,
  });
const question = (x: Partial<Action> = {}): Action =>
  push({
    kind: 'question' as Action['kind'],
    name: 'question',
    function: 'question',
    title: 'Which table?',
    arguments: {},
    ...x,
  });

/** Stores actions on the server; those that wait are for Mia. */
function ask(...asked: Action[]) {
  const { backend } = screen.scene;
  for (const a of asked) backend.actions.set(a.id, a);
  backend.waiting = waiting({ actions: asked.filter((a) => a.state === 'waiting') });
}
/** Shows the thread with a reply of Vibe that was written in a session. */
async function showReply(session: CodeSession | null, ended = true, without?: string, steps = 0) {
  const { ws, backend } = screen.scene;
  backend.code = new CodeRoutes();
  if (session) backend.code.sessions = [session];
  const code = session ? { session_id: session.id } : without ? { without } : undefined;
  const metadata = { task_id: 'task_1', ...(code && { code }), ...(steps > 0 && { steps }) };
  const state = ended ? 'complete' : 'streaming';
  const reply = fromAgent({ id: 'msg_r', content: 'Let me see.', state, metadata });
  backend.messages = [message({ content: 'Fix it.' }), reply];
  const status = ended ? 'completed' : 'running';
  const own = task({ status, started_at: AT, completed_at: ended ? AT : null, reply_message_id: 'msg_r' });
  screen.scene.event('task.status_changed', { task: own });
  actionsOf(ws, screen.app.ui);
  screen.show(Conversation, { state: ws.thread('thread_1'), unsent: ws.outbox.items, target: null });
  await page.findByRole('region', { name: 'Messages' });
}
const frame = (x: object) =>
  screen.ws.onFrame({ type: 'code.step', task_id: 'task_1', ...x } as unknown as DroppableFrame);

test('changes are shown with the check, and what will be pushed', async () => {
  ask(push());
  await showReply(codeSession({ notes: ['A submodule was left out'] }));
  const it = within(await card());
  expect(
    await it.findByRole('heading', { name: 'Vibe worked in api on branch vibe/123: 1 file, +24 −9' }),
  ).toBeTruthy();
  expect(it.getByText('Tests passed, 41 s')).toBeTruthy();
  expect(it.getByText('Add sums')).toBeTruthy();
  expect(it.getByText('They were <b>missing</b>.')).toBeTruthy();
  expect(it.getByText('A submodule was left out')).toBeTruthy();
  for (const name of ['Review', 'Approve and push', 'Deny', 'Edit text', 'Download patch'])
    expect(it.getByRole('button', { name })).toBeTruthy();
});
test('approving sends the hash of what was shown', async () => {
  ask(push());
  await showReply(codeSession());
  const { backend } = screen.scene;
  const approve = await button('Approve and push');
  backend.actions.set('act_1', push({ state: 'approved', granted_by: 'person' }));
  backend.waiting = waiting();
  await fireEvent.click(approve);
  expect(await page.findByText('Pushing…')).toBeTruthy();
  expect(backend.calls).toContain('POST /v1/actions/act_1/approve');
  expect(backend.bodies).toContainEqual({ arguments_hash: 'a1' });
});
test('other changes than those to approve cannot be pushed', async () => {
  ask(push());
  await showReply(codeSession({ tree: 't2' }));
  expect(await page.findByText('These changes are newer than the ones to approve.')).toBeTruthy();
  expect((await button('Approve and push')).hasAttribute('disabled')).toBe(true);
});
test('others see the changes without the decision', async () => {
  screen.scene.backend.actions.set('act_1', announced(push({ requested_by: 'user_bo' })));
  await showReply(codeSession());
  const it = within(await card());
  expect(await it.findByText('Waiting for Bo to approve.')).toBeTruthy();
  expect(it.queryByRole('button', { name: 'Approve and push' })).toBeNull();
  expect(it.getByRole('button', { name: 'Review' })).toBeTruthy();
});
test.each([
  ['https://git.example/pr/7', true],
  ['javascript:alert(1)', false],
])('a pushed branch links to %s: %s', async (url, isLinked) => {
  const needs = [{ who: 'requester' as const, user_id: null, by: 'user_bo', at: AT }];
  ask(push({ state: 'done', granted_by: 'person', needs }));
  await showReply(
    codeSession({ action_id: 'act_1', pushed: { commit: 'c', url, tree: null, by: 'user_bo', at: AT } }),
  );
  const it = within(await card());
  expect(await it.findByText(/^Pushed by Bo/)).toBeTruthy();
  expect(it.queryByRole('link', { name: 'Open pull request' }) !== null).toBe(isLinked);
});
test.each(['failed', 'expired'] as const)('a push that has %s is offered again', async (state) => {
  ask(push({ state, granted_by: state === 'failed' ? 'person' : null }));
  await showReply(codeSession({ action_id: 'act_1', title: 'Add sums', body: 'x', state: 'ready' }));
  await fireEvent.click(await button('Try again'));
  await waitFor(() => expect(screen.scene.backend.bodies).toContainEqual({ title: 'Add sums', body: 'x' }));
});
test('an earlier push has neither the link nor the person of a later one', async () => {
  const needs = [{ who: 'requester' as const, user_id: null, by: 'user_me', at: AT }];
  ask(push({ state: 'done', granted_by: 'person', needs }));
  const pushed = { commit: 'c', url: 'https://git.example/pr/8', tree: null, by: 'user_bo', at: AT };
  await showReply(codeSession({ action_id: 'act_2', reply_id: 'msg_later', pushed }));
  expect(await page.findByText('Pushed by you')).toBeTruthy();
  expect(page.queryByRole('article', { name: /^Changes/ })).toBeNull();
  expect(page.queryByRole('link', { name: 'Open pull request' })).toBeNull();
});
test('a failed check can be handed back to the agent', async () => {
  ask(push());
  await showReply(codeSession({ check: { state: 'failed', ms: 5 } }));
  await fireEvent.click(await button('Ask Vibe to fix it'));
  const sent = screen.ws.outbox.items.map((item) => [item.thread_id, item.content]);
  expect(sent).toEqual([['thread_1', '@vibe The check failed. Please fix it.']]);
});
test('changes of CI are named', async () => {
  ask(push());
  await showReply(codeSession({}, { path: '.github/workflows/test.yml' }));
  expect(await page.findByText('Changes what runs in CI: .github/workflows/test.yml')).toBeTruthy();
});
test('without changes, and below earlier replies, there is no card', async () => {
  await showReply(codeSession({ files: [], file_count: 0, reply_id: null, tree: null }));
  expect(await button('Log')).toBeTruthy();
  expect(page.queryByRole('article', { name: /^Changes/ })).toBeNull();
});
test('changed texts are sent as they were, without codes', async () => {
  ask(push({ arguments: { repository: 'api', tree: 't1', title: 'Add\u200Bsums', body: 'x' } }));
  await showReply(codeSession());
  expect(await page.findByText('Add\\u{200B}sums')).toBeTruthy();
  await fireEvent.click(await button('Edit text'));
  const dialog = within(await page.findByRole('dialog', { name: 'Edit text' }));
  await fireEvent.input(dialog.getByRole('textbox', { name: 'Text' }), { target: { value: 'y' } });
  await fireEvent.click(dialog.getByRole('button', { name: 'Save' }));
  await waitFor(() =>
    expect(screen.scene.backend.bodies).toContainEqual({ title: 'Add\u200Bsums', body: 'y' }),
  );
});
test('steps and the plan of a turn are shown as they come', async () => {
  await showReply(codeSession({ state: 'working' }), false);
  frame({
    steps: [step({ state: 'done', ms: 1200 }), step({ n: 1, title: '`npm test`', kind: 'execute' })],
    plan: [
      { content: 'Read', status: 'completed' },
      { content: 'Fix \u202E', status: 'pending' },
    ],
  });
  await fireEvent.click(await button('Plan · 1 of 2'));
  expect(await page.findByText('Fix \\u{202E}')).toBeTruthy();
  await fireEvent.click(await button('2 steps'));
  const steps = within(await page.findByRole('list', { name: 'Steps' }));
  expect(steps.getAllByRole('listitem').map((li) => li.textContent)).toEqual([
    'Done:Read src/sum.js1.2 s',
    'Running:npm test',
  ]);
  expect(page.getByText(/^Running npm test · \d+ s$/)).toBeTruthy();
  frame({ steps: [step({ n: 1, title: 'npm test', kind: 'execute', state: 'failed', ms: 50 })] });
  expect(await page.findByText('< 0.1 s')).toBeTruthy();
});
test('steps of an earlier turn come from its log', async () => {
  await showReply(codeSession(), true, undefined, 1);
  const line = { kind: 'step', task: 'task_1', step: 0, title: 'Read a', state: 'done', ms: 100 };
  screen.scene.backend.code!.log = JSON.stringify(line);
  await fireEvent.click(await button('1 step'));
  expect(await page.findByText('Read a')).toBeTruthy();
});
test('the steps before the page was opened come from the log, too', async () => {
  await showReply(codeSession({ state: 'working' }), false);
  const lines = [0, 1].map((n) => ({ kind: 'step', step: n, title: `Read ${n}`, state: 'running', ms: 0 }));
  screen.scene.backend.code!.log = lines.map((line) => JSON.stringify(line)).join('\n');
  frame({ steps: [step({ n: 1, state: 'done' }), step({ n: 2 })] });
  await fireEvent.click(await button('3 steps'));
  expect(await page.findByText('Read 0')).toBeTruthy();
  expect(page.queryByText('Read 1')).toBeNull();
});
test('a task that waits names the runner, and the number of those before it', async () => {
  const { ws, backend } = screen.scene;
  backend.code = new CodeRoutes();
  backend.code.sessions = [codeSession({ state: 'working', ahead: 2 })];
  const wait_reason = 'runner' as NonNullable<ReturnType<typeof task>['wait_reason']>;
  ws.tasks.put(task({ wait_reason }));
  const actions = actionsOf(ws, screen.app.ui);
  await vi.waitFor(() => expect(actions.chip(task({ wait_reason }))).toBe('Waiting for build-1 · 2 ahead'));
  backend.code.sessions = [codeSession({ state: 'preparing', version: 2 })];
  const changed = { code_session_id: 'code_1', version: 2 };
  screen.scene.event('code_session.updated', changed);
  await vi.waitFor(() => expect(actions.chip(task({ wait_reason }))).toBe('Preparing api'));
  expect(actions.chip(task({ status: 'running' }))).toBe('Preparing api');
});
test('a reply without the repository says so', async () => {
  await showReply(null, true, 'api');
  expect(await page.findByText('Without the repository')).toBeTruthy();
  expect(page.queryByRole('button', { name: 'Log' })).toBeNull();
});
test('a question with options is answered with one', async () => {
  const options = [
    { id: 'o1', name: 'users' },
    { id: 'o2', name: 'or\u202Eders' },
    { id: 'o2', name: 'again' }, // agents can send anything
  ];
  ask(question({ arguments: { options } }));
  await showReply(null, false);
  const it = within(await page.findByRole('article', { name: 'Question: Which table?' }));
  expect(await it.findByRole('button', { name: 'or\\u{202E}ders' })).toBeTruthy();
  screen.scene.backend.actions.set('act_1', question({ state: 'done' }));
  screen.scene.backend.waiting = waiting();
  await fireEvent.click(it.getByRole('button', { name: 'users' }));
  expect(await page.findByText('Which table? · answered')).toBeTruthy();
  expect(screen.scene.backend.calls).toContain('POST /v1/actions/act_1/answer');
  expect(screen.scene.backend.bodies).toContainEqual({ value: 'o1' });
});
test('a question with a form is answered with an object', async () => {
  const schema = {
    type: 'object',
    properties: { table: { type: 'string', title: 'Table' }, drop: { type: 'boolean', title: 'Drop it' } },
    required: ['table'],
  };
  ask(question({ arguments: { schema } }));
  await showReply(null, false);
  const it = within(await page.findByRole('article', { name: 'Question: Which table?' }));
  const answer = await it.findByRole('button', { name: 'Answer' });
  expect(answer.hasAttribute('disabled')).toBe(true);
  await fireEvent.input(it.getByRole('textbox', { name: 'Table' }), { target: { value: 'users' } });
  await fireEvent.click(answer);
  await waitFor(() =>
    expect(screen.scene.backend.bodies).toContainEqual({ value: { table: 'users', drop: false } }),
  );
});
test('a question whose form cannot be shown can be declined', async () => {
  ask(
    question({
      arguments: { options: [], schema: { type: 'object', properties: { a: { type: 'object' } } } },
    }),
  );
  await showReply(null, false);
  const it = within(await page.findByRole('article', { name: 'Question: Which table?' }));
  expect(await it.findByText('This form cannot be shown here.')).toBeTruthy();
  await fireEvent.click(it.getByRole('button', { name: 'Decline' }));
  await waitFor(() => expect(screen.scene.backend.calls).toContain('POST /v1/actions/act_1/deny'));
});
test('others see that a question waits', async () => {
  screen.scene.backend.actions.set('act_1', announced(question({ requested_by: 'user_bo' })));
  await showReply(null, false);
  expect(await page.findByText('Waiting for Bo to answer: Which table?')).toBeTruthy();
  expect(page.queryByRole('button', { name: 'Decline' })).toBeNull();
});
test('only the repository of the session counts for its name', async () => {
  ask(push());
  await showReply(codeSession());
  await card();
  screen.scene.backend.code!.repositories = [repository({ name: 'web' })];
  const changed = { repository_id: 'repo_1', version: 2 };
  screen.scene.event('repository.updated', changed);
  expect(await page.findByRole('article', { name: 'Changes: web' })).toBeTruthy();
});
