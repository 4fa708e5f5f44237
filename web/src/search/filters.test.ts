import { expect, test } from 'vitest';
import { asked, filtersIn, suggestionsFor, put, without, wordAt, type Known } from './filters';

const known: Known = {
  me: 'user_me',
  people: [
    { id: 'user_me', handle: 'mia', name: 'Mia' },
    { id: 'user_bo', handle: 'bo', name: 'Bo Chen' },
  ],
  agents: [{ id: 'agent_vibe', handle: 'vibe', name: 'Vibe' }],
  channels: [
    { id: 'chan_1', name: 'general', topic: 'All of us' },
    { id: 'chan_2', name: 'random', topic: '' },
  ],
  today: new Date(2026, 0, 5, 12),
};
const inserts = (word: string) => suggestionsFor(word, known).map((o) => o.insert);

test('the word at the caret; a phrase in quotes is one', () => {
  expect(wordAt('launch from:bo', 14)).toEqual({ start: 7, end: 14, text: 'from:bo' });
  expect(wordAt('launch from:bo', 3).text).toBe('launch');
  expect(wordAt('launch ', 7)).toEqual({ start: 7, end: 7, text: '' });
  expect(wordAt('a "two words" b', 8).text).toBe('"two words"');
  expect(wordAt('"still open', 9).text).toBe('"still open');
});
test('a word that may become a filter is suggested from its second letter on', () => {
  expect(inserts('f')).toEqual([]);
  expect(inserts('fr')).toEqual(['from:']);
  expect(inserts('HA')).toEqual(['has:']);
  expect(inserts('launch')).toEqual([]);
});
test('the values of each filter, by handle or by any word of the name', () => {
  expect(inserts('from:')).toEqual(['from:me', 'from:vibe', 'from:bo']);
  expect(inserts('from:ch')).toEqual(['from:bo']);
  expect(inserts('from:@vi')).toEqual(['from:vibe']);
  expect(inserts('in:#r')).toEqual(['in:random']);
  expect(inserts('has:re')).toEqual(['has:reaction', 'has:result']);
  expect(inserts('before:').slice(0, 3)).toEqual([
    'before:2026-01-05',
    'before:2026-01-04',
    'before:2025-12-29',
  ]);
  expect(inserts('after:2025-12')).toEqual(['after:2025-12-29', 'after:2025-12-06']);
});
test('a complete word gets no suggestion, so that Enter searches', () => {
  expect(inserts('from:bo')).toEqual([]);
  expect(inserts('in:General')).toEqual([]);
  expect(inserts('from:nobody')).toEqual([]);
});
test('a suggestion replaces its word', () => {
  const text = 'launch fr today';
  expect(put(text, wordAt(text, 9), 'from:')).toEqual({ text: 'launch from: today', caret: 12 });
  const more = 'launch from:b';
  expect(put(more, wordAt(more, 13), 'from:bo')).toEqual({ text: 'launch from:bo ', caret: 15 });
  const before = 'from:b launch';
  expect(put(before, wordAt(before, 6), 'from:bo')).toEqual({ text: 'from:bo launch', caret: 8 });
});
test('the filters of a query, and the query without one of them', () => {
  const q = 'launch from:bo "in:quotes here" has: in:general';
  expect(filtersIn(q)).toEqual(['from:bo', 'in:general']);
  expect(without(q, 'from:bo')).toBe('launch "in:quotes here" has: in:general');
});
test('a filter without a value does not narrow the search', () => {
  expect(asked('launch from: "two  words"')).toBe('launch "two  words"');
  expect(asked(' launch  day ')).toBe('launch  day');
  expect(asked('from:')).toBe('');
});
