// @vitest-environment happy-dom
import { fireEvent, screen as page, waitFor, within } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import type { Action } from '../api/actions';
import type { TaskContext } from '../api/types';
import Conversation from '../components/Conversation.svelte';
import InspectorMessages from '../components/InspectorMessages.svelte';
import { since } from '../lib/time';
import { AT, fromAgent, message, task } from '../test/make';
import { action, announced, approved, grant, waiting } from '../test/make-actions';
import { schedule } from '../test/make-schedules';
import { Screen } from '../test/screen';
import { actionsOf } from './actions.svelte';
import InboxPage from '../inbox/InboxPage.svelte';

const screen = new Screen();
const card = () => page.findByRole('article', { name: 'Approval: Create an issue' });
const button = (name: string) => page.findByRole('button', { name });

/** Stores actions on the server that wait for Mia's decision. */
function ask(...asked: Action[]) {
  const { backend } = screen.scene;
  for (const a of asked) backend.actions.set(a.id, a);
  backend.waiting = waiting({ actions: asked });
  backend.tools = [{ id: 'tool_jira', title: 'Jira' }];
}
/** Shows the thread with a parked reply of Vibe. */
async function showReply(reply = fromAgent({ content: 'Let me see.', state: 'streaming' })) {
  const { ws, backend } = screen.scene;
  backend.messages = [
    message({ content: 'File it.' }),
    { ...reply, metadata: { task_id: 'task_1', ...reply.metadata } },
  ];
  const status = reply.state === 'streaming' ? 'queued' : 'completed';
  const parked = task({ status, wait_reason: 'approval', round: 1, reply_message_id: reply.id });
  screen.scene.event('task.status_changed', { task: parked });
  actionsOf(ws, screen.app.ui);
  screen.show(Conversation, { state: ws.thread('thread_1'), unsent: ws.outbox.items, target: null });
  await page.findByRole('region', { name: 'Messages' });
}

test('a card below the reply has what the server knows', async () => {
  ask(
    action({
      sources: [{ kind: 'message', label: 'Bo', author: null }],
      repeats: { action_id: 'act_0', at: AT },
    }),
  );
  await showReply();
  const it = within(await card());
  expect(await it.findByText('Vibe wants to do this in Jira for you.')).toBeTruthy();
  expect(within(it.getByRole('table', { name: 'Arguments' })).getByText('Offline sync')).toBeTruthy();
  expect(it.getByText('It has read: messages by Bo.')).toBeTruthy();
  expect(it.getByText(/^This may already have happened at /)).toBeTruthy();
  expect(page.getByText('Waiting for your approval')).toBeTruthy();
});
test('a card names the authors of the agent, with a link to its page', async () => {
  const label = "Vibe's instructions, by Bo";
  const author = { user_id: 'user_bo', agent_id: 'agent_vibe', part: 'instructions' };
  ask(action({ agent_id: 'agent_vibe', sources: [{ kind: 'author', label, author }] }));
  await showReply();
  const link = await within(await card()).findByRole('link', { name: 'Its instructions are by Bo.' });
  expect(link.getAttribute('href')).toMatch(/\/agents\/agent_vibe$/);
});
test('an approval leaves its decision', async () => {
  ask(action());
  await showReply();
  const { backend } = screen.scene;
  await card();
  backend.actions.set('act_1', approved(action()));
  backend.waiting = waiting();
  await fireEvent.click(await button('Approve'));
  expect(
    await within(await card()).findByText(`Approved by you, ${since(AT)}`, { exact: false }),
  ).toBeTruthy();
  expect(page.queryByRole('button', { name: 'Approve' })).toBeNull();
  expect(backend.calls).toContain('POST /v1/actions/act_1/approve');
});
test('a refusal carries its reason', async () => {
  ask(action());
  await showReply();
  await fireEvent.click(await button('Add a reason'));
  await fireEvent.input(await page.findByRole('textbox', { name: /^Reason/ }), {
    target: { value: 'Wrong project ' },
  });
  const denied = approved(action(), 'user_me', { state: 'denied', granted_by: null, error: 'denied' });
  screen.scene.backend.actions.set('act_1', denied);
  screen.scene.backend.waiting = waiting();
  await fireEvent.click(await button('Deny'));
  expect(await page.findByText(/Denied by you/)).toBeTruthy();
  expect(screen.scene.backend.bodies).toContainEqual({ arguments_hash: 'a1', note: 'Wrong project' });
});
test('a failed request is shown, and the card stays', async () => {
  ask(action());
  await showReply();
  await card();
  screen.scene.backend.refuse = /approve$/;
  await fireEvent.click(await button('Approve'));
  expect((await page.findByRole('alert')).textContent).toContain('No.');
  expect((await button('Approve')).hasAttribute('disabled')).toBe(false);
});
test('others see a line without details', async () => {
  screen.scene.backend.actions.set('act_1', announced(action({ requested_by: 'user_bo' })));
  await showReply();
  expect(await page.findByText('Waiting for Bo to approve: Create an issue')).toBeTruthy();
  expect(page.queryByRole('article', { name: /^Approval/ })).toBeNull();
  expect(page.queryByRole('button', { name: 'Approve' })).toBeNull();
});
test('the decision of somebody else replaces the card', async () => {
  ask(action());
  await showReply();
  await card();
  screen.scene.backend.waiting = waiting();
  screen.scene.event('action.updated', { action: announced(approved(action(), 'user_bo')) });
  expect(await page.findByText(/Approved by Bo/)).toBeTruthy();
  expect(page.queryByRole('button', { name: 'Deny' })).toBeNull();
});
test.each([
  [true, 'user_me'],
  [false, 'user_me'],
  [true, 'user_bo'],
])(
  'only the requester of what can hold for an hour can allow it: %s, %s',
  async (grantable, requested_by) => {
    ask(action({ grantable, requested_by }));
    await showReply();
    await card();
    const offered = page.queryByRole('button', { name: 'Allow for 1 hour' }) !== null;
    expect(offered).toBe(grantable && requested_by === 'user_me');
  },
);
test('a call without a known end is settled', async () => {
  ask(action({ state: 'unknown' }));
  await showReply();
  const it = await page.findByRole('article', { name: 'Outcome: Create an issue' });
  expect(await within(it).findByText('Jira may have received this. Did it happen?')).toBeTruthy();
  screen.scene.backend.actions.set('act_1', action({ state: 'failed', result: 'did_not_happen' }));
  screen.scene.backend.waiting = waiting();
  await fireEvent.click(await button('It did not'));
  expect(await page.findByText(/It did not happen/)).toBeTruthy();
  expect(screen.scene.backend.bodies).toContainEqual({ outcome: 'did_not_happen' });
});
test('a call whose arguments were deleted cannot be approved', async () => {
  ask(action({ arguments: null }));
  await showReply();
  expect(within(await card()).getByText(/can no longer be approved/)).toBeTruthy();
  expect(page.queryByRole('button', { name: 'Approve' })).toBeNull();
});
test('long arguments are shown on request', async () => {
  ask(action({ arguments: { text: 'x'.repeat(3000) } }));
  await showReply();
  const table = await page.findByRole('table', { name: 'Arguments' });
  expect(table.textContent.length).toBeLessThan(2100);
  await fireEvent.click(await button('Show all'));
  expect(table.textContent.length).toBeGreaterThan(3000);
});
test('the steps of a reply are folded, and open to arguments and result', async () => {
  const search = action({
    name: 'search',
    function: 'search_messages',
    title: 'Search messages',
    tool: null,
    effect: 'read',
    needs: [],
  });
  const done = {
    ...search,
    state: 'done',
    duration_ms: 400,
    result: '[S1] Bo',
    count: 1,
    granted_by: 'policy',
  } as const;
  screen.scene.backend.actions.set('act_1', done);
  await showReply(fromAgent({ content: 'Monday.', metadata: { steps: 1 } }));
  await fireEvent.click(await button('1 step'));
  const step = await button('Searched messages · 1 result · 0.4 s');
  await fireEvent.click(step);
  expect(step.getAttribute('aria-expanded')).toBe('true');
  const result = page.getByRole('region', { name: 'Result of Search messages' });
  expect(result.textContent).toBe('[S1] Bo');
});
test('the inbox has cards, changed functions, budgets, and permissions', async () => {
  ask(action());
  const { backend } = screen.scene;
  backend.waiting = {
    ...backend.waiting,
    grants: [grant()],
    tools: [{ tool_id: 'tool_jira', title: 'Jira', changed_functions: 2 }],
  };
  screen.show(InboxPage, {});
  expect(await card()).toBeTruthy();
  expect(await page.findAllByRole('link', { name: /^#general, / })).toHaveLength(2);
  expect(page.getByText('Jira changed 2 functions')).toBeTruthy();
  expect(page.getByText('Allowed for now')).toBeTruthy();
  await fireEvent.click(await button('Revoke Create an issue'));
  await waitFor(() => expect(page.queryByText('Allowed for now')).toBeNull());
  expect(backend.calls).toContain('DELETE /v1/grants/grant_1');
});
test('the inbox has paused schedules and workflows until they are dealt with', async () => {
  const { backend } = screen.scene;
  const text = 'Schedule "Morning" is paused: it failed five times in a row.';
  const { id, name, owner_id } = schedule();
  const gone = 'Workflow "review" is paused: Bo left the workspace.';
  backend.waiting = waiting({
    paused: [
      { schedule_id: id, workflow_id: null, name, reason: 'failing', owner_id, text },
      {
        schedule_id: null,
        workflow_id: 'flow_1',
        name: 'review',
        reason: 'owner_gone',
        owner_id,
        text: gone,
      },
    ],
  });
  screen.show(InboxPage, {});
  const list = await page.findByRole('list', { name: 'Paused' });
  for (const words of [text, gone]) expect(within(list).getByText(words)).toBeTruthy();
  const link = (of: string) =>
    within(list)
      .getByRole('link', { name: `Resume ${of}` })
      .getAttribute('href');
  expect([link('Morning'), link('review')]).toEqual([
    '/northwind/automation/schedules',
    '/northwind/automation',
  ]);
  backend.waiting = waiting();
  screen.scene.event('schedule.updated', { schedule: schedule() });
  expect(await page.findByText('You’re caught up.')).toBeTruthy();
});
test('the approval of a run has its text, and a link to the run', async () => {
  const approval = action({
    kind: 'approval',
    task_id: 'task_9',
    agent_id: null,
    name: 'approval',
    function: 'approval',
    title: 'Approve the draft',
    tool: null,
    arguments: { text: 'Publish this? We launch on **Monday**.' },
    grantable: false,
  });
  ask(approval);
  screen.show(InboxPage, {});
  const it = within(await page.findByRole('article', { name: 'Approval: Approve the draft' }));
  expect(it.getByText('A workflow that runs for you needs your approval to go on.')).toBeTruthy();
  expect((await it.findByText('Monday')).tagName).toBe('STRONG');
  await fireEvent.click(it.getByRole('button', { name: 'Show as text' }));
  expect(it.getByRole('row', { name: 'Text Publish this? We launch on **Monday**.' })).toBeTruthy();
  expect(it.getByRole('link', { name: /^Show run/ }).getAttribute('href')).toBe(
    '/northwind/automation/history/run_9',
  );
  expect(it.queryByRole('button', { name: 'Add a reason' })).toBeNull();
});
test('an empty inbox says so, and fills without a reload', async () => {
  screen.show(InboxPage, {});
  expect(await page.findByText('You’re caught up.')).toBeTruthy();
  ask(action());
  screen.scene.event('action.requested', { action: announced(action()) });
  expect(await card()).toBeTruthy();
  expect(page.getByRole('region', { name: 'Waiting for you' })).toBeTruthy();
});

test('what an agent saw includes the results of its searches', async () => {
  screen.scene.backend.actions.set('act_1', action({ name: 'search', state: 'done', needs: [] }));
  const memories = { considered: {}, used: [], messages: [], hidden: [] };
  const seen = { messages: [], left_out: [], memories, tools: [], sources: [] } as unknown as TaskContext;
  screen.show(InspectorMessages, { seen, task: task() });
  expect(await page.findByText('Read 0 messages here. Searched this workspace.')).toBeTruthy();
});
