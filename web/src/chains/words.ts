import type { Task } from '../api/types';
import type { TaskTree } from '../api/task-trees';
import { count, money } from '../lib/numbers';
import { listed } from '../lib/text';
import { plural, seconds } from '../lib/time';

/** Milliseconds from the start of a task to its end, or until now. */
const took = (t: Task, now: number): number =>
  t.started_at
    ? Math.max(0, (t.completed_at ? Date.parse(t.completed_at) : now) - Date.parse(t.started_at))
    : 0;

/** State of a link in a word or two: `done`, `writing 7 s`, `waiting`. */
export function linkState(t: Task, now: number): string {
  switch (t.status) {
    case 'completed':
      return 'done';
    case 'failed':
      return 'failed';
    case 'cancelled':
      return t.started_at ? 'stopped' : 'not asked';
    case 'running':
      return `writing ${Math.floor(took(t, now) / 1000)} s`;
    default:
      return t.wait_reason === 'approval' ? 'waiting for approval' : 'waiting';
  }
}

/** A line of the panel: `Coder, step 1, done in 14.0 s, $0.02`, `Coder, asked by Vibe, …`, or `Coder, step draft, …`. */
export function stepText(t: Task, name: string, now: number, caller?: string): string {
  const cost = t.token_usage?.cost_usd ?? null;
  const state =
    t.status === 'completed' && t.started_at ? `done in ${seconds(took(t, now))}` : linkState(t, now);
  return [
    name,
    t.input.chain && `step ${t.input.chain.step}`,
    t.step_id && `step ${t.step_id}`,
    caller && `asked by ${caller}`,
    state,
    cost === null ? null : money(cost),
  ]
    .filter(Boolean)
    .join(', ');
}

/** Chip of a task that waits for others: `Waiting for Coder and Tester · 12 s`. */
export function waitingText(others: Task[], nameOf: (agent: string | null) => string, now: number): string {
  const names = [...new Set(others.map((t) => nameOf(t.agent_id)))];
  if (!names.length) return 'Waiting for agents';
  const since = Math.min(...others.map((t) => Date.parse(t.queued_at)));
  return `Waiting for ${listed(names)} · ${Math.max(0, Math.floor((now - since) / 1000))} s`;
}

/** Text in place of a brief or an answer that the reader may not see, or that was removed. */
export const missingText = (maySee: boolean): string =>
  maySee
    ? 'It was removed with a message that it used.'
    : 'Hidden because this work used an external tool: only the person who asked, approvers, and admins can see it.';

/** Answer to the agent that delegated the work, or the reason that there is none. */
export function answerText(t: Task, maySee: boolean): string {
  switch (t.status) {
    case 'completed':
      return t.output?.answer ?? missingText(maySee);
    case 'failed':
      return `None. ${t.error?.message ?? 'It failed.'}`;
    case 'cancelled':
      return 'None: it was stopped.';
    default:
      return 'Not yet.';
  }
}

/** Total usage of a tree. */
export function sumsText({ spent }: TaskTree): string {
  const tokens = spent.input_tokens + spent.output_tokens;
  return [
    plural(spent.calls, 'model call'),
    `${count(tokens)} tokens`,
    seconds(spent.run_ms),
    spent.cost_usd === null ? null : money(spent.cost_usd),
  ]
    .filter(Boolean)
    .join(' · ');
}

/** `Coder answers first, then Reviewer, then Tester.` */
export const orderText = (names: string[]): string =>
  `${names[0]} answers first, then ${names.slice(1).join(', then ')}.`;

/** `Both start now. Reviewer will not see Coder’s answer.` */
export const togetherText = (first: string, second: string): string =>
  `Both start now. ${second} will not see ${first}’s answer.`;
