import { expect, test } from 'vitest';
import type { CatchUp } from '../api/catch-up';
import { byText, canBeWritten, isWorthIt, leftOutText, openText } from './words';

const caughtUp = (change: Partial<CatchUp> = {}): CatchUp => ({
  from_seq: 4,
  to_seq: 40,
  count: 34,
  lines: [],
  by: 'builtin',
  left_out: { lines: 0, messages: 0 },
  ...change,
});

test('the button counts new messages up to the limit of the server', () => {
  expect(openText(34)).toBe('Catch up (34 new)');
  expect(openText(1000)).toBe('Catch up (999+ new)');
  expect([9, 10].map(isWorthIt)).toEqual([false, true]);
});
test('a model is offered for 20 messages or more that it has not summarized', () => {
  expect(canBeWritten(caughtUp())).toBe(true);
  expect(canBeWritten(caughtUp({ count: 19 }))).toBe(false);
  expect(canBeWritten(caughtUp({ by: 'scripted-1' }))).toBe(false);
});
test('the author and the rest are named', () => {
  expect(byText(caughtUp())).toBe('34 messages, summarized without a model');
  expect(byText(caughtUp({ by: 'scripted-1' }))).toBe('34 messages, summarized by scripted-1 for you');
  expect(leftOutText(caughtUp())).toBe('');
  expect(leftOutText(caughtUp({ left_out: { lines: 1, messages: 120 } }))).toBe(
    'Left out: 1 sentence and 120 older messages.',
  );
});
