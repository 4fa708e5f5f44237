import { expect, test } from 'vitest';
import type { CatchUp, UnreadSummary } from '../api/catch-up';
import { byText, canBeWritten, headText, leftOutText, quoted, restText, sectionsOf } from './words';

const caughtUp = (change: Partial<CatchUp> = {}): CatchUp => ({
  from_seq: 4,
  to_seq: 40,
  count: 34,
  lines: [],
  by: 'builtin',
  left_out: { lines: 0, messages: 0 },
  ...change,
});

test('the heading counts messages up to the limit of the server, and names the time', () => {
  const now = new Date();
  now.setHours(0, 2, 0, 0);
  expect(headText(34, now.toISOString())).toBe('34 messages since 00:02 · Only you see this');
  expect(headText(1, null)).toBe('1 message · Only you see this');
  expect(headText(1000, null)).toBe('999+ messages · Only you see this');
});
test('lines are grouped by section, in the order of the sections', () => {
  const line = (text: string, section?: 'decided' | 'asked' | 'open' | 'also') =>
    section ? { text, sources: [], section } : { text, sources: [] };
  const lines = [line('a'), line('b', 'open'), line('c', 'decided'), line('d', 'also')];
  expect(sectionsOf(caughtUp({ lines })).map((s) => [s.name, ...s.lines.map((l) => l.text)])).toEqual([
    ['Decided', 'c'],
    ['Still open', 'b'],
    ['Also', 'a', 'd'],
  ]);
});
test('a model is offered for 20 messages or more that it has not summarized', () => {
  expect(canBeWritten(caughtUp())).toBe(true);
  expect(canBeWritten(caughtUp({ count: 19 }))).toBe(false);
  expect(canBeWritten(caughtUp({ by: 'scripted-1' }))).toBe(false);
});
test('the author and the rest are named', () => {
  expect(byText(caughtUp())).toBe('Summarized without a model.');
  expect(byText(caughtUp({ by: 'scripted-1' }))).toBe('Summarized by scripted-1 for you.');
  expect(leftOutText(caughtUp())).toBe('');
  expect(leftOutText(caughtUp({ left_out: { lines: 1, messages: 120 } }))).toBe(
    'Left out: 1 sentence and 120 older messages.',
  );
  const summary: UnreadSummary = {
    from_at: null,
    to_seq: 9,
    groups: [],
    count: 9,
    left_out: { threads: 2, messages: 9 },
  };
  expect(restText(summary)).toBe('Left out: 2 threads with 9 messages.');
  expect(restText({ ...summary, left_out: { threads: 0, messages: 0 } })).toBe('');
});
test('a quote is one block with its author', () => {
  expect(quoted('Bo', 'I will\nset it up')).toBe('> **Bo**: I will set it up\n\n');
});
