import { expect, test } from 'vitest';
import { apply, complete, findTrigger, type Candidate } from './complete';

const c = (kind: Candidate['kind'], title: string, handle: string): Candidate => ({
  key: handle,
  kind,
  insert: `@${handle}`,
  title,
  handle,
  note: '',
});
const all = [
  c('person', 'Vida Berg', 'vida'),
  c('agent', 'Vibe', 'vibe'),
  c('agent', 'Coder', 'coder'),
  c('person', 'Ada Vinter', 'ada'),
];

test.each([
  ['@', 1, '@', ''],
  ['hi @vi', 6, '@', 'vi'],
  ['(@Co', 4, '@', 'co'],
  ['see #gen', 8, '#', 'gen'],
  ['yes :ta', 7, ':', 'ta'],
  ['line\n@a', 7, '@', 'a'],
])('%j opens', (text, caret, sigil, query) => {
  expect(findTrigger(text, caret)).toMatchObject({ sigil, query });
});
test.each([
  ['me@ho', 5],
  ['a#b', 3],
  ['12:30', 5],
  [':a', 2],
  ['`@vi', 4],
  ['```\n@vi', 7],
  ['\\@vi', 4],
  ['@vi be', 6],
  ['http://x', 8],
])('%j stays closed', (text, caret) => expect(findTrigger(text, caret)).toBeNull());
test('prefix first, agents before people on a tie, then later words', () => {
  expect(complete(all, 'vi').map((x) => x.title)).toEqual(['Vibe', 'Vida Berg', 'Ada Vinter']);
});
test('at most six rows', () => {
  expect(
    complete(
      Array.from({ length: 20 }, (_, i) => c('person', `P${i}`, `p${i}`)),
      'p',
    ),
  ).toHaveLength(6);
});
test('picking replaces the typed text and leaves one space', () => {
  const t = findTrigger('hi @vi there', 6)!;
  expect(apply('hi @vi there', 6, t, '@vibe')).toEqual({ text: 'hi @vibe there', caret: 9 });
  expect(apply('@v', 2, findTrigger('@v', 2)!, '@vibe')).toEqual({ text: '@vibe ', caret: 6 });
});
