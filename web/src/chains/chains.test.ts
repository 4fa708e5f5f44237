// @vitest-environment happy-dom
import { fireEvent, screen as page, waitFor, within } from '@testing-library/svelte';
import { describe, expect, test } from 'vitest';
import CompletionMenu from '../components/CompletionMenu.svelte';
import { agentName } from '../lib/text';
import { Completion } from '../state/composer.svelte';
import { AT, message, task } from '../test/make';
import { Screen } from '../test/screen';
import Chains from './Chains.svelte';
import { linkState, orderText, stepText, sumsText } from './words';

const LATER = '2026-01-05T09:00:14.000Z';
const now = Date.parse(LATER);
const done = task({
  id: 'task_1',
  status: 'completed',
  started_at: AT,
  completed_at: LATER,
  input: { prompt: 'a', chain: { step: 1, steps: 3 } },
  token_usage: { input_tokens: 800, output_tokens: 10, model: 'm', cost_usd: 0.02, estimated: false },
});
const running = task({
  id: 'task_2',
  status: 'running',
  started_at: AT,
  after_task_id: 'task_1',
  agent_id: 'agent_coder',
  input: { prompt: 'b', chain: { step: 2, steps: 3 } },
});
const parked = task({
  id: 'task_3',
  wait_reason: 'chain',
  after_task_id: 'task_2',
  input: { prompt: 'c', chain: { step: 3, steps: 3 } },
});
const tree = {
  object: 'task_tree' as const,
  root_task_id: 'task_1',
  status: 'running' as const,
  tasks: [done, running, { id: 'task_9', status: 'completed' as const, hidden: true }],
  spent: { calls: 2, input_tokens: 1800, output_tokens: 34, cost_usd: 0.05, run_ms: 14_000, by_model: [] },
  limits: { calls: 120, run_ms: 3_600_000, tasks: 64, depth: 5, delegations: 5 },
  score: 0,
};

describe('the words of a chain', () => {
  test('name the state of each link', () => {
    const failed = task({ status: 'failed' });
    const stopped = task({ status: 'cancelled', started_at: AT });
    const never = task({ status: 'cancelled' });
    expect([done, running, parked, failed, stopped, never].map((t) => linkState(t, now))).toEqual([
      'done',
      'writing 14 s',
      'waiting',
      'failed',
      'stopped',
      'not asked',
    ]);
  });
  test('name step, duration, and cost', () => {
    expect(stepText(done, 'Coder', now)).toBe('Coder, step 1, done in 14.0 s, $0.02');
    expect(stepText(running, 'Vibe', now)).toBe('Vibe, step 2, writing 14 s');
    expect(sumsText(tree)).toBe('2 model calls · 1,834 tokens · 14.0 s · $0.05');
  });
  test('name the order', () => {
    expect(orderText(['Coder', 'Reviewer'])).toBe('Coder answers first, then Reviewer.');
  });
});

describe('on screen', () => {
  const screen = new Screen();

  test('the agents at work can be stopped together, and their steps are listed', async () => {
    const { backend, ws } = screen.scene;
    backend.tasks = [done, running, parked];
    backend.tree = tree;
    for (const t of backend.tasks) ws.tasks.put(t);
    screen.show(Chains, {
      message: message({ metadata: { chain: ['task_1', 'task_2', 'task_3'] } }),
    });
    const region = within(await page.findByRole('region', { name: 'Agents at work' }));
    expect(region.getByText(/ done · .+ writing \d+ s · .+ waiting$/)).toBeTruthy();
    await fireEvent.click(region.getByRole('button', { name: 'Stop all' }));
    await waitFor(() => expect(backend.calls.at(-1)).toBe('POST /v1/tasks/task_3/cancel'));
    expect(backend.bodies.at(-1)).toEqual({ scope: 'tree' });
    await fireEvent.click(region.getByRole('button', { name: 'Show work' }));
    const steps = within(await page.findByRole('tree', { name: 'Agents and steps' }));
    const items = steps.getAllByRole('treeitem').map((item) => item.textContent.trim());
    expect(items[0]).toMatch(/, step 1, done in 14\.0 s, \$0\.02$/);
    expect(items[2]).toBe('A step in a conversation that you can’t read, completed');
  });
  test('links that wait are not rows of their own', () => {
    const { ws } = screen.scene;
    for (const t of [done, running, parked]) ws.tasks.put(t);
    expect(ws.tasks.inPlace('thread_1').map((t) => t.id)).toEqual(['task_1', 'task_2']);
  });
  test('a draft with arrows shows the order of its agents', async () => {
    const [first, second] = screen.ws.people.agents;
    screen.show(Chains, { text: `@${first!.name} a → @${second!.name} b` });
    const list = within(await page.findByRole('list', { name: 'Chain' }));
    expect(list.getAllByRole('listitem')).toHaveLength(2);
    expect(page.getByRole('status').textContent).toMatch(/ answers first, then .+\.$/);
  });
  test('a draft whose agents should wait for each other becomes a chain on request', async () => {
    const [first, second] = screen.ws.people.agents;
    const drafts: string[] = [];
    screen.show(Chains, {
      text: `@${first!.name} write it, then @${second!.name} review it`,
      onput: (text: string) => drafts.push(text),
    });
    const status = await page.findByText(/^Both start now\. .+ will not see .+’s answer\.$/);
    expect(status.textContent).toContain(agentName(second!));
    await fireEvent.click(page.getByRole('button', { name: 'One after the other' }));
    expect(drafts).toEqual([`@${first!.name} write it → @${second!.name} review it`]);
  });
  test('an agent’s complete name offers another agent', async () => {
    const name = screen.ws.people.agents[0]!.name;
    const completion = new Completion(screen.ws);
    const text = `@${name}`;
    completion.update(text, text.length);
    screen.show(CompletionMenu, { completion, id: 'menu', onpick: () => undefined });
    await page.findByRole('option', { name: 'Then another agent…' });
    const then = completion.hits.at(-1)!;
    const taken = completion.take(then, text, text.length);
    expect(taken).toEqual({ text: `@${name} → @`, caret: `@${name} → @`.length });
  });
});
