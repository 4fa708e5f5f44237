import type { Task } from '../api/types';
import { money } from './numbers';
import { clock, plural, seconds } from './time';

export type ChipState = 'queued' | 'retrying' | 'running' | 'done' | 'failed' | 'stopped';

export function chipState(t: Task): ChipState {
  switch (t.status) {
    case 'completed':
      return 'done';
    case 'cancelled':
      return 'stopped';
    case 'queued':
      return t.retry_at ? 'retrying' : 'queued';
    default:
      return t.retry_at ? 'retrying' : t.status;
  }
}

export interface ChipView {
  now: number;
  /** True if part of the reply has arrived. */
  writing: boolean;
  /** True if the task waits until earlier messages are summarized. */
  summarizing: boolean;
  /** Number of tool calls; 0 while it is unknown. */
  steps?: number;
  /** Number of tool calls that were refused or failed. */
  failed?: number;
  me: string;
  stopped: (user: string | null) => string;
}

/** Tool calls of a reply: "3 steps", "1 step failed"; blank if there are none. */
function stepsText({ steps = 0, failed = 0 }: ChipView): string {
  const all = steps > failed ? ` · ${plural(steps, 'step')}` : '';
  return all + (failed ? ` · ${plural(failed, 'step')} failed` : '');
}

/** Text of the task chip. */
export function chipText(t: Task, view: ChipView): string {
  const since = (iso: string | null) => (iso ? Math.max(0, view.now - Date.parse(iso)) : 0);
  switch (chipState(t)) {
    case 'queued':
      return t.wait_reason === 'approval' ? 'Waiting for approval' : 'Queued';
    case 'retrying': {
      if (t.wait_reason === 'budget') return 'Waiting for budget';
      const left = Math.max(0, Math.ceil((Date.parse(t.retry_at!) - view.now) / 1000));
      return `${left ? `Retrying in ${left} s` : 'Retrying now'} · attempt ${t.attempt}`;
    }
    case 'running':
      return view.writing
        ? `Writing ${Math.floor(since(t.started_at) / 1000)} s`
        : view.summarizing
          ? 'Summarizing earlier messages'
          : t.fork_id
            ? 'Reading the dive'
            : 'Reading the thread';
    case 'failed':
      return 'Failed';
    case 'stopped':
      return 'Stopped';
    case 'done': {
      const took =
        t.started_at && t.completed_at
          ? seconds(Math.max(0, Date.parse(t.completed_at) - Date.parse(t.started_at)))
          : 'Replied';
      const cost = t.token_usage?.cost_usd ?? null;
      return took + stepsText(view) + (cost === null ? '' : ` · ${money(cost)}`);
    }
  }
}

/** Reason why a reply is waiting, in one sentence. */
export function waitText(t: Task, name: string): string {
  if (t.wait_reason === 'budget') return 'Running replies have reserved the rest of a budget.';
  if (t.retry_at) {
    const why = t.wait_reason === 'rate_limited' ? 'The model is rate-limited' : 'The model did not respond';
    return `${why}. The same request will be sent again at ${clock(t.retry_at)}.`;
  }
  return t.status === 'queued' && !t.wait_reason ? `${name} starts as soon as it is free.` : '';
}
