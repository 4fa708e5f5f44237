// @vitest-environment happy-dom
import { fireEvent, screen as page, waitFor, within } from '@testing-library/svelte';
import { describe, expect, test } from 'vitest';
import { actionsOf } from '../approvals/actions.svelte';
import ReplyActions from '../approvals/ReplyActions.svelte';
import Step from '../approvals/Step.svelte';
import Notice from '../components/Notice.svelte';
import { AT, message, task } from '../test/make';
import { action, waiting } from '../test/make-actions';
import { Screen } from '../test/screen';
import Chains from './Chains.svelte';
import { workRows, worksOf } from './trees';
import { answerText, missingText, stepText, waitingText } from './words';

const LATER = '2026-01-05T09:00:14.000Z';
const now = Date.parse(LATER);
const root = task({ status: 'queued', wait_reason: 'children', round: 1, started_at: AT });
const brief = {
  message: 'Draft the note.',
  facts: [
    { text: 'We launch on Monday.', sources: ['msg_1'] },
    { text: 'The press is waiting.', sources: [] },
  ],
  constraints: ['At most two sentences.'],
  output: 'Plain text.',
  left_out: 1,
};
const child = (x: Parameters<typeof task>[0] = {}) =>
  task({
    id: 'task_2',
    kind: 'delegate',
    agent_id: 'agent_coder',
    parent_task_id: 'task_1',
    root_task_id: 'task_1',
    depth: 1,
    ...x,
  });
const done = child({
  status: 'completed',
  started_at: AT,
  completed_at: LATER,
  input: { prompt: 'a', brief },
  output: { response_length: 9, answer: 'The note.' },
  token_usage: { input_tokens: 800, output_tokens: 10, model: 'm', cost_usd: 0.02, estimated: false },
});
const tree = {
  object: 'task_tree' as const,
  root_task_id: 'task_1',
  status: 'running' as const,
  tasks: [
    root,
    done,
    child({ id: 'task_3', agent_id: 'agent_vibe', status: 'running', started_at: AT }),
    child({ id: 'task_4', agent_id: 'agent_vibe', parent_task_id: 'task_2', depth: 2 }),
  ],
  spent: { calls: 2, input_tokens: 800, output_tokens: 10, cost_usd: 0.02, run_ms: 14_000, by_model: [] },
  limits: { calls: 120, run_ms: 3_600_000, tasks: 64, depth: 5, delegations: 5 },
  score: 0,
};

describe('the words of a delegation', () => {
  test('name the caller, the duration, and the cost', () => {
    expect(stepText(done, 'Coder', now, 'Vibe')).toBe('Coder, asked by Vibe, done in 14.0 s, $0.02');
  });
  test('name those that a task waits for, each once', () => {
    const names: Record<string, string> = { agent_coder: 'Coder', agent_tester: 'Tester' };
    const nameOf = (id: string | null) => names[id ?? ''] ?? '';
    const tester = child({ id: 'task_3', agent_id: 'agent_tester', queued_at: LATER });
    expect(waitingText([child()], nameOf, now)).toBe('Waiting for Coder · 14 s');
    expect(waitingText([child(), tester, tester], nameOf, now)).toBe('Waiting for Coder and Tester · 14 s');
    expect(waitingText([], nameOf, now)).toBe('Waiting for agents');
  });
  test('name the reason that there is no answer', () => {
    expect(answerText(done, true)).toBe('The note.');
    expect(answerText(child(), true)).toBe('Not yet.');
    expect(answerText(child({ status: 'cancelled' }), true)).toBe('None: it was stopped.');
    const removed = { ...done, output: { response_length: 9 } };
    expect(answerText(removed, true)).toBe('It was removed with a message that it used.');
    expect(answerText(removed, false)).toBe(missingText(false));
  });
});

describe('the tree', () => {
  test('has what was passed on below the step that passed it on', () => {
    expect(workRows(tree).map((r) => [r.task.id, r.parent, r.level, r.position, r.size])).toEqual([
      ['task_1', null, 1, 1, 1],
      ['task_2', 'task_1', 2, 1, 2],
      ['task_4', 'task_2', 3, 1, 1],
      ['task_3', 'task_1', 2, 2, 2],
    ]);
  });
  test('belongs to the message that started it, until it is retried', () => {
    const trigger = message({ id: 'msg_1' });
    const ids = (known: typeof tree.tasks) =>
      worksOf(trigger, known).map((work) => work.tasks.map((t) => t.id));
    expect(ids(tree.tasks)).toEqual([['task_2', 'task_4', 'task_3']]);
    expect(ids([...tree.tasks, task({ id: 'task_5', retry_of: 'task_1' })])).toEqual([]);
    expect(worksOf(message({ id: 'msg_2' }), tree.tasks)).toEqual([]);
  });
});

describe('on screen', () => {
  const screen = new Screen();
  /** Shows the work below the trigger message. `known` contains the tasks of the server's tree. */
  const show = (known = tree.tasks) => {
    const { backend, ws } = screen.scene;
    backend.tasks = tree.tasks;
    backend.tree = { ...tree, tasks: known };
    for (const t of [root, known[2]!]) ws.tasks.put(t);
    screen.show(Chains, { message: message({ id: 'msg_1' }) });
  };
  const openWork = async () => {
    await fireEvent.click(await page.findByRole('button', { name: 'Show work' }));
    return within(await page.findByRole('tree', { name: 'Agents and steps' }));
  };

  test('agents at work include those that ended before the page was opened', async () => {
    show();
    const region = within(await page.findByRole('region', { name: 'Agents at work' }));
    expect(await region.findByText(/^Coder done · Vibe waiting · Vibe writing \d+ s$/)).toBeTruthy();
    expect(region.getByRole('button', { name: 'Stop all' })).toBeTruthy();
  });
  test('the chip of the caller names those that it waits for', () => {
    const { ws } = screen.scene;
    for (const t of [root, child()]) ws.tasks.put(t);
    const actions = actionsOf(ws, screen.app.ui);
    expect(actions.chip(root, now)).toBe('Waiting for Coder · 14 s');
    expect(actions.delegated.has('msg_1')).toBe(true);
    expect(ws.tasks.inPlace('thread_1').map((t) => t.id)).toEqual(['task_1']);
  });
  test('new delegations are known after the row that loaded the actions was scrolled away', () => {
    const { ws } = screen.scene;
    const row = screen.show(ReplyActions, { task: 'task_1', message: message({ metadata: { steps: 1 } }) });
    const actions = ws.actions!;
    expect(actions.delegated.size).toBe(0);
    row.unmount();
    for (const t of [root, child()]) ws.tasks.put(t);
    expect(actions.delegated.has('msg_1')).toBe(true);
  });
  test('agents at work are shown after a reload, too', async () => {
    const { backend, ws } = screen.scene;
    backend.tasks = tree.tasks;
    backend.tree = tree;
    const output = { response_length: 5, delegated: true };
    ws.tasks.put(task({ status: 'completed', completed_at: LATER, round: 1, output }));
    screen.show(ReplyActions, { task: 'task_1', message: message({ metadata: { steps: 1 } }) });
    screen.show(Chains, { message: message({ id: 'msg_1' }) });
    expect(await page.findByRole('region', { name: 'Agents at work' })).toBeTruthy();
  });
  test('everyone who may see a brief finds it in the steps', async () => {
    const { backend } = screen.scene;
    backend.tree = tree;
    const asked = action({
      function: 'delegate',
      tool: null,
      state: 'done',
      needs: [],
      arguments: null,
      child_task_id: 'task_2',
    });
    screen.show(Step, { action: asked });
    await fireEvent.click(page.getByRole('button', { name: 'Asked an agent' }));
    expect(await page.findByText('Draft the note.')).toBeTruthy();
    expect(page.getByRole('region', { name: 'Answer from Coder' }).textContent).toBe('The note.');
    expect(page.getByRole('button', { name: 'Asked Coder' })).toBeTruthy();
  });
  test('arrow keys follow the levels of the tree', async () => {
    show();
    const steps = await openWork();
    const items = steps.getAllByRole('treeitem');
    expect(items.map((item) => item.getAttribute('aria-level'))).toEqual(['1', '2', '3', '2']);
    expect(items[1]!.textContent).toContain('Coder, asked by Vibe, done in 14.0 s, $0.02');
    items[0]!.focus();
    const press = (key: string) => fireEvent.keyDown(document.activeElement!, { key });
    for (const [key, at] of [
      ['ArrowRight', 1],
      ['ArrowRight', 2],
      ['ArrowRight', 2],
      ['ArrowLeft', 1],
      ['End', 3],
      ['ArrowLeft', 0],
    ] as const) {
      await press(key);
      expect(document.activeElement).toBe(items[at]);
    }
  });
  test('what an agent got is shown with its sources and its answer', async () => {
    show();
    const steps = await openWork();
    await fireEvent.click(steps.getByRole('button', { name: 'What Coder got' }));
    const given = within(await page.findByRole('region', { name: 'What Vibe gave Coder' }));
    const headings = given.getAllByRole('heading', { level: 4 }).map((h) => h.textContent);
    expect(headings).toEqual(['Request', 'Facts', 'Constraints', 'Wanted answer', 'Left out', 'Answer']);
    const facts = given.getAllByRole('listitem').map((item) => item.textContent.replace(/\s+/g, ' ').trim());
    expect(facts).toEqual([
      'We launch on Monday. Source',
      'The press is waiting. No source',
      'At most two sentences.',
    ]);
    expect(given.getByText('The note.')).toBeTruthy();
  });
  test('a hidden brief names those who see it', async () => {
    const ofBo = tree.tasks.map((t) => ({ ...t, requested_by: 'user_bo' }));
    ofBo[1] = { ...ofBo[1]!, input: { prompt: 'a' }, output: { response_length: 9 } };
    show(ofBo);
    const steps = await openWork();
    await fireEvent.click(steps.getByRole('button', { name: 'What Coder got' }));
    const given = within(await page.findByRole('region', { name: 'What Vibe gave Coder' }));
    expect(given.getByText(missingText(false))).toBeTruthy();
    expect(given.queryByText('Answer')).toBeNull();
  });
  test('approvals of an agent without a reply are shown below the trigger message', async () => {
    const { backend } = screen.scene;
    const asked = action({ task_id: 'task_3' });
    backend.actions.set(asked.id, asked);
    backend.waiting = waiting({ actions: [asked] });
    show();
    expect(await page.findByRole('article', { name: 'Approval: Create an issue' })).toBeTruthy();
  });
  test('agents that were repeating themselves can be asked again', async () => {
    const { backend, ws } = screen.scene;
    const error = { code: 'loop' as const, message: 'They were repeating themselves.' };
    const stopped = task({ status: 'failed', error });
    ws.tasks.put(stopped);
    backend.tasks = [stopped];
    const m = message({ kind: 'notice', metadata: { task_id: 'task_1' } });
    screen.show(Notice, { message: m, replyTo: null, settled: false });
    expect(page.queryByRole('button', { name: 'Retry' })).toBeNull();
    await fireEvent.click(await page.findByRole('button', { name: 'Try again' }));
    await waitFor(() => expect(backend.calls.at(-1)).toBe('POST /v1/tasks/task_1/retry'));
    expect(backend.bodies.at(-1)).toEqual({ guard: 8 });
  });
});
