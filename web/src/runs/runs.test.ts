// @vitest-environment happy-dom
import { fireEvent, screen as page, waitFor, within } from '@testing-library/svelte';
import { beforeEach, describe, expect, test } from 'vitest';
import { actionsOf } from '../approvals/actions.svelte';
import Composer from '../components/Composer.svelte';
import Conversation from '../components/Conversation.svelte';
import Notice from '../components/Notice.svelte';
import { UNBOUND } from '../lib/responder';
import { responderOf } from '../state/composer-context';
import { AT, fromAgent, message } from '../test/make';
import { action, waiting } from '../test/make-actions';
import { rootTask, run, step, steps, workflow } from '../test/make-runs';
import { Screen } from '../test/screen';
import RunDetail from './RunDetail.svelte';
import RunDialog from './RunDialog.svelte';
import Runs from './Runs.svelte';

const screen = new Screen();
const backend = () => screen.scene.backend;
const button = (name: string) => page.findByRole('button', { name });
const approval = action({
  kind: 'approval',
  agent_id: null,
  name: 'approval',
  function: 'approval',
  title: 'Approve the draft',
  tool: null,
  arguments: { text: 'Publish this?' },
  grantable: false,
});
/** A tree that contains no tasks and cost this much. */
const tree = (cost_usd: number | null) => ({
  object: 'task_tree' as const,
  root_task_id: 'task_1',
  status: 'running' as const,
  tasks: [],
  spent: { calls: 1, input_tokens: 800, output_tokens: 10, cost_usd, run_ms: 1000, by_model: [] },
  limits: { calls: 120, run_ms: 3_600_000, tasks: 64, depth: 5, delegations: 5 },
  score: 0,
});

beforeEach(() => {
  backend().workflows = [workflow(), workflow({ id: 'flow_2', name: 'old', status: 'paused' })];
  backend().runs.set('run_1', run());
  backend().tasks = [rootTask()];
  backend().tree = tree(0.02);
});

describe('the list of runs', () => {
  test('has a row for each run, with the cost of its tree', async () => {
    const failed = run({ id: 'run_0', status: 'failed', requested_by: 'user_bo', completed_at: AT });
    backend().runs.set('run_0', { ...failed, cause: { type: 'message', id: 'msg_1' } });
    screen.show(Runs, {});
    const table = within(await page.findByRole('table', { name: 'Runs' }));
    const [, first, second] = table.getAllByRole('row');
    expect(within(first!).getByText('Running')).toBeTruthy();
    expect(within(first!).getByRole('link').getAttribute('href')).toBe('/northwind/automation/history/run_1');
    expect(within(second!).getByText('Failed')).toBeTruthy();
    expect(within(second!).getByText('Started by a message')).toBeTruthy();
    await waitFor(() => expect(table.getAllByText('$0.02')).toHaveLength(2));
    screen.scene.event('run.updated', { run: run({ status: 'completed', completed_at: AT }) });
    expect(await table.findByText('Completed')).toBeTruthy();
  });
  test('is empty at first', async () => {
    backend().runs.clear();
    screen.show(Runs, {});
    expect(await page.findByText('No runs yet')).toBeTruthy();
  });
});

describe('a run', () => {
  test('shows its steps, and waits for the person who approves', async () => {
    const [draft, approve, publish] = steps('completed', 'waiting');
    const output = '**We launch** on Monday.';
    const now = [{ ...draft!, output }, { ...approve!, action_id: 'act_1' }, publish!];
    backend().runs.set('run_1', run({ status: 'waiting', steps: now }));
    backend().actions.set('act_1', approval);
    backend().waiting = waiting({ actions: [approval] });
    screen.show(RunDetail, { id: 'run_1' });
    expect(await page.findByText('review · step 2 of 3 · Approve the draft · waits for you')).toBeTruthy();
    const items = within(page.getByRole('list', { name: 'Steps' })).getAllByRole('listitem');
    expect(items).toHaveLength(3);
    expect(within(items[0]!).getByRole('heading', { name: '1. Ask Vibe' })).toBeTruthy();
    expect(within(items[0]!).getByText('We launch').tagName).toBe('STRONG');
    const card = await within(items[1]!).findByRole('article', { name: 'Approval: Approve the draft' });
    expect(within(card).getByRole('button', { name: 'Approve' })).toBeTruthy();
    await fireEvent.click(await button('Read and approve'));
    expect(document.activeElement).toBe(card);
    await fireEvent.click(await button('Stop all'));
    await waitFor(() => expect(backend().calls).toContain('POST /v1/tasks/task_1/cancel'));
  });
  test('continues after a failure', async () => {
    const error = 'Workflow review stopped at step 1, Ask Vibe: the model refused.';
    const failed = step({ state: 'failed', error: 'the model refused' });
    const before = run({ status: 'failed', error, steps: [failed, ...steps().slice(1)] });
    backend().runs.set('run_1', before);
    screen.show(RunDetail, { id: 'run_1' });
    expect(await page.findByText(error)).toBeTruthy();
    expect(page.getByText('The model refused')).toBeTruthy();
    await fireEvent.click(await button('Resume from step 1'));
    await waitFor(() => expect(backend().calls).toContain('POST /v1/runs/run_1/resume'));
    const after = run({ status: 'completed', steps: steps('completed', 'completed', 'completed') });
    backend().runs.set('run_1', after);
    screen.scene.event('run.updated', { run: after });
    await waitFor(() => expect(page.getAllByText('Done')).toHaveLength(3));
    expect(page.queryByRole('button', { name: /^(Stop|Resume)/ })).toBeNull();
  });
  test('names both reasons for a missing output', async () => {
    backend().runs.set('run_1', run({ steps: steps('completed', 'completed') }));
    screen.show(RunDetail, { id: 'run_1' });
    expect(await page.findAllByText('Its output is hidden or was removed.')).toHaveLength(2);
  });
  test('of somebody else is not changed', async () => {
    backend().workflows = [workflow({ owner_id: 'user_bo' })];
    backend().runs.set('run_1', run({ requested_by: 'user_bo', status: 'failed' }));
    screen.show(RunDetail, { id: 'run_1' });
    expect(await button('Show work')).toBeTruthy();
    expect(page.queryByRole('button', { name: /^Resume/ })).toBeNull();
  });
});

describe('a thread', () => {
  const show = async () => {
    const { ws } = screen;
    screen.show(Conversation, { state: ws.thread('thread_1'), unsent: ws.outbox.items, target: null });
    await page.findByRole('region', { name: 'Messages' });
  };
  test('shows an active run until it ends, and what it asks', async () => {
    const root = rootTask();
    screen.ws.tasks.put(root);
    const asking = steps('completed', 'waiting').map((s) =>
      s.state === 'waiting' ? { ...s, action_id: 'act_1' } : s,
    );
    backend().runs.set('run_1', run({ steps: asking }));
    backend().actions.set('act_1', approval);
    backend().waiting = waiting({ actions: [approval] });
    actionsOf(screen.ws, screen.app.ui);
    const posted = fromAgent({ content: 'A draft.', metadata: { task_id: 'task_1', run_id: 'run_1' } });
    backend().messages = [posted];
    await show();
    const name = 'review · step 2 of 3 · Approve the draft · waits for you';
    const line = within(await page.findByRole('region', { name }));
    // The draft is not shown again below the messages of the run.
    await page.findByText('A draft.');
    expect(await page.findAllByRole('article', { name: 'Approval: Approve the draft' })).toHaveLength(1);
    expect(page.queryByText(/What it saw/)).toBeNull();
    await fireEvent.click(line.getByRole('button', { name: 'Stop all' }));
    await waitFor(() => expect(backend().calls).toContain('POST /v1/tasks/task_1/cancel'));
    expect(backend().bodies).toContainEqual({ scope: 'tree' });
    screen.scene.event('task.status_changed', { task: { ...root, status: 'cancelled' } });
    await waitFor(() => expect(page.queryByRole('button', { name: 'Stop all' })).toBeNull());
  });
  test('follows the run by its events', async () => {
    screen.ws.tasks.put(rootTask());
    await show();
    expect(await page.findByText('review · step 1 of 3 · Ask Vibe')).toBeTruthy();
    screen.scene.event('run.updated', { run: run({ steps: steps('completed', 'skipped', 'running') }) });
    expect(await page.findByText('review · step 3 of 3 · Post a message')).toBeTruthy();
  });
  test('leads from the notice of a failed run to the run', async () => {
    screen.ws.tasks.put(rootTask({ status: 'failed' }));
    const notice = message({ kind: 'notice', metadata: { task_id: 'task_1' } });
    screen.show(Notice, { message: notice, replyTo: null, settled: false });
    const link = await page.findByRole('link', { name: 'Show run' });
    expect(link.getAttribute('href')).toBe('/northwind/automation/history/run_1');
    expect(page.queryByRole('button', { name: 'Retry' })).toBeNull();
  });
});

describe('a workflow is started', () => {
  const LABEL = 'Reply, or @mention an agent';
  const field = () => page.getByRole<HTMLTextAreaElement>('textbox', { name: LABEL });
  /** Bodies of the requests to start a run. */
  const starts = () =>
    backend().bodies.filter((body) => Object.hasOwn(body as object, 'input')) as { client_id: string }[];
  const started = () => starts().at(-1);
  async function write(text: string) {
    field().focus();
    await fireEvent.input(field(), { target: { value: text } });
  }
  function showComposer() {
    const { ws } = screen;
    const channel = ws.channels.map.get('chan_1')!;
    const conversation = { thread: 'thread_1', fork: null };
    const context = { channel, conversation, responder: responderOf(UNBOUND, ws) };
    screen.show(Composer, { place: 't:thread_1', label: LABEL, context, onsend: () => undefined });
  }

  test('with /run, whose names are completed', async () => {
    showComposer();
    await write('/run re');
    expect(await page.findByRole('option', { name: /^review/ })).toBeTruthy();
    expect(page.queryByRole('option', { name: /^old/ })).toBeNull();
    await fireEvent.keyDown(field(), { key: 'Enter' });
    await waitFor(() => expect(field().value).toBe('/run review '));
    expect(started()).toBeUndefined();
    await write('/run review the plan');
    await fireEvent.keyDown(field(), { key: 'Enter' });
    await waitFor(() => expect(started()).toMatchObject({ thread_id: 'thread_1', input: 'the plan' }));
    await waitFor(() => expect(screen.app.ui.toast?.text).toBe('Started review'));
    expect(screen.ws.tasks.runsIn('thread_1')).toHaveLength(1);
    expect(field().value).toBe('');
  });
  test('with /run and a complete name at once', async () => {
    showComposer();
    await write('/run review');
    await page.findByRole('option', { name: /^review/ });
    await fireEvent.keyDown(field(), { key: 'Enter' });
    await waitFor(() => expect(started()).toMatchObject({ input: '' }));
  });
  test('unless the server refuses it: the text stays', async () => {
    backend().refuse = /runs$/;
    backend().failure = { code: 'workflow_paused', message: 'the workflow is paused' };
    showComposer();
    await write('/run review now');
    await fireEvent.keyDown(field(), { key: 'Enter' });
    await waitFor(() => expect(screen.app.ui.toast?.text).toBe('The workflow is paused'));
    await waitFor(() => expect(field().value).toBe('/run review now'));
    await write('/run nothing');
    await fireEvent.keyDown(field(), { key: 'Enter' });
    await waitFor(() => expect(screen.app.ui.toast?.text).toMatch(/no workflow is named “nothing”/));
  });
  test('once if the first response was lost, and again by the next command', async () => {
    backend().lost = /runs$/;
    showComposer();
    await write('/run review now');
    await fireEvent.keyDown(field(), { key: 'Enter' });
    await waitFor(() => expect(screen.app.ui.toast?.text).toBe('The server cannot be reached.'));
    await waitFor(() => expect(field().value).toBe('/run review now'));
    backend().lost = null;
    await fireEvent.keyDown(field(), { key: 'Enter' });
    await waitFor(() => expect(screen.app.ui.toast?.text).toBe('Started review'));
    await write('/run review now');
    await fireEvent.keyDown(field(), { key: 'Enter' });
    await waitFor(() => expect(starts()).toHaveLength(3));
    const [lost, again, next] = starts().map((body) => body.client_id);
    expect(again).toBe(lost);
    expect(next).not.toBe(lost);
  });
  test('from the menu of a message, without a copy of its text', async () => {
    let closed = 0;
    const about = message({ content: 'The launch plan' });
    screen.show(RunDialog, { message: about, onclose: () => void closed++ });
    expect(await page.findByRole('option', { name: 'review' })).toBeTruthy();
    const input = page.getByRole<HTMLTextAreaElement>('textbox', { name: 'Input (optional)' });
    expect(input.value).toBe('');
    backend().refuse = /runs$/;
    backend().failure = { code: 'too_many_runs', message: 'it has 10 active runs' };
    await fireEvent.click(await button('Run'));
    expect(await page.findByText('It has 10 active runs')).toBeTruthy();
    backend().refuse = null;
    await fireEvent.click(await button('Run'));
    await waitFor(() => expect(closed).toBe(1));
    expect(started()).toMatchObject({ thread_id: 'thread_1', input: '' });
  });
});
