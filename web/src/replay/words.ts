import type { Replay, ReplayCase, ReplayEstimate, SkippedReply } from '../api/replays';
import { count, money } from '../lib/numbers';
import { listed } from '../lib/text';
import { plural, seconds } from '../lib/time';

const REASONS: Record<SkippedReply['reason'], string> = {
  expired: 'no longer kept',
  deleted: 'deleted',
  not_readable: 'you can no longer read it',
};

/** "20 tasks, about $0.40"; without a known price, the tokens. */
export function estimateText(it: ReplayEstimate): string {
  if (!it.cases) return 'There are no replies to try yet.';
  const about = it.cost_usd_max === null ? `${count(it.input_tokens)} tokens` : money(it.cost_usd_max);
  return `${plural(it.cases, 'task')}, about ${about}`;
}

const hasEnded = (it: ReplayCase): boolean => it.after !== null || it.status === 'cancelled';
/** "3 of 20 done". */
export function progressText(it: Replay): string {
  const done = it.cases.filter(hasEnded).length + it.skipped.length;
  return `${done} of ${it.cases.length + it.skipped.length} done`;
}

/** "Left out: 2 replies (deleted)."; empty if nothing was. */
export function skippedText({ skipped }: Replay): string {
  if (!skipped.length) return '';
  const reasons = [...new Set(skipped.map((one) => REASONS[one.reason]))];
  return `Left out: ${plural(skipped.length, 'reply', 'replies')} (${listed(reasons)}).`;
}

/** Text in place of an answer; empty if there is one. */
export function pendingText({ status, after }: ReplayCase): string {
  if (after?.error) return after.error.message;
  if (after) return '';
  return status === 'cancelled' ? 'Stopped' : status === 'running' ? 'Writing…' : 'Waiting';
}

/** "scripted-1 · 1,234 tokens · 2.1 s", without the parts that are not known. */
export const usedText = (it: { model: string | null; tokens: number; ms: number }): string =>
  [it.model ?? '', it.tokens ? `${count(it.tokens)} tokens` : '', it.ms ? seconds(it.ms) : '']
    .filter(Boolean)
    .join(' · ');
