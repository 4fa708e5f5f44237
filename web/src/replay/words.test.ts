import { expect, test } from 'vitest';
import type { Replay, ReplayCase, ReplayEstimate } from '../api/replays';
import { estimateText, pendingText, progressText, skippedText, usedText } from './words';

const estimate = (change: Partial<ReplayEstimate> = {}): ReplayEstimate => ({
  cases: 20,
  calls: 20,
  input_tokens: 42_000,
  cost_usd_max: 0.4,
  ...change,
});
const used = { model: 'scripted-1', tokens: 1234, ms: 2100 };
const after = { ...used, text: 'Monday.', would_call: null, error: null };
const one = (change: Partial<ReplayCase> = {}): ReplayCase => ({
  task_id: 'task_1',
  status: 'completed',
  asked: 'Which day?',
  before: { ...used, text: 'On Monday.' },
  after,
  partial: false,
  ...change,
});
const replay = (change: Partial<Replay> = {}): Replay => ({ cases: [], skipped: [], ...change });

test('an estimate names the cost, or the tokens without a price', () => {
  expect(estimateText(estimate())).toBe('20 tasks, about $0.40');
  expect(estimateText(estimate({ cases: 1, cost_usd_max: null }))).toBe('1 task, about 42,000 tokens');
  expect(estimateText(estimate({ cases: 0 }))).toBe('There are no replies to try yet.');
});
test('progress counts answers, stopped cases, and skipped replies', () => {
  const cases = [one(), one({ status: 'cancelled', after: null }), one({ status: 'queued', after: null })];
  expect(progressText(replay({ cases, skipped: [{ task_id: 'task_2', reason: 'expired' }] }))).toBe(
    '3 of 4 done',
  );
});
test('skipped replies are named with their reasons', () => {
  expect(skippedText(replay())).toBe('');
  const skipped = (['deleted', 'expired', 'deleted'] as const).map((reason) => ({ task_id: reason, reason }));
  expect(skippedText(replay({ skipped }))).toBe('Left out: 3 replies (deleted and no longer kept).');
});
test('a case without an answer says why', () => {
  expect(pendingText(one())).toBe('');
  expect(pendingText(one({ status: 'queued', after: null }))).toBe('Waiting');
  expect(pendingText(one({ status: 'running', after: null }))).toBe('Writing…');
  expect(pendingText(one({ status: 'cancelled', after: null }))).toBe('Stopped');
  const error = { code: 'timeout', message: 'The model did not answer.' } as const;
  expect(pendingText(one({ after: { ...after, text: null, error } }))).toBe('The model did not answer.');
});
test('model, tokens, and time are shown as far as they are known', () => {
  expect(usedText(used)).toBe('scripted-1 · 1,234 tokens · 2.1 s');
  expect(usedText({ model: null, tokens: 0, ms: 0 })).toBe('');
});
