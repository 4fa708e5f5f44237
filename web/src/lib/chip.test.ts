import { expect, test } from 'vitest';
import { AT, task } from '../test/make';
import { chipText, waitText } from './chip';
import { clock } from './time';

test('the chip shows the state of the task', () => {
  const now = Date.parse(AT) + 7200;
  const textOf = (x: object, writing = false, steps = 0, failed = 0) =>
    chipText(task(x), {
      now,
      writing,
      summarizing: false,
      steps,
      failed,
      me: 'user_me',
      stopped: () => 'You',
    });
  expect(textOf({})).toBe('Queued');
  expect(textOf({ status: 'running', started_at: AT })).toBe('Reading the thread');
  expect(textOf({ status: 'running', started_at: AT }, true)).toBe('Writing 7 s');
  expect(textOf({ retry_at: '2026-01-05T09:00:12.000Z', attempt: 2 })).toBe('Retrying in 5 s · attempt 2');
  expect(textOf({ status: 'completed', started_at: AT, completed_at: '2026-01-05T09:00:06.400Z' })).toBe(
    '6.4 s',
  );
  const usage = { input_tokens: 1, output_tokens: 1, model: 'tiny', cost_usd: 0.02, estimated: false };
  const done = { status: 'completed', started_at: AT, completed_at: '2026-01-05T09:00:06.400Z' };
  expect(textOf({ ...done, token_usage: usage })).toBe('6.4 s · $0.02');
  expect(textOf({ ...done, token_usage: usage }, false, 3)).toBe('6.4 s · 3 steps · $0.02');
  expect(textOf({ ...done, token_usage: { ...usage, cost_usd: null } })).toBe('6.4 s');
  expect(textOf(done, false, 1, 1)).toBe('6.4 s · 1 step failed');
  expect(textOf(done, false, 3, 1)).toBe('6.4 s · 3 steps · 1 step failed');
  expect(textOf({ retry_at: AT, wait_reason: 'budget' })).toBe('Waiting for budget');
  expect(textOf({ wait_reason: 'approval', round: 1 })).toBe('Waiting for approval');
  expect(textOf({ status: 'failed' })).toBe('Failed');
  expect(waitText(task({ retry_at: AT, wait_reason: 'rate_limited' }), 'Vibe')).toBe(
    `The model is rate-limited. The same request will be sent again at ${clock(AT)}.`,
  );
});
