import { expect, test } from 'vitest';
import { wordsPattern } from './hit-marks';

const found = (words: string[], text: string) =>
  [...text.matchAll(wordsPattern(words)!)].map(([word]) => word);

test('whole words are marked, in any case, and nothing inside of other words', () => {
  expect(found(['plan'], 'Plan the plans: a PLAN, unplanned')).toEqual(['Plan', 'PLAN']);
});
test('signs in a word are not read as a pattern', () => {
  expect(found(['a.b', 'c++'], 'a.b axb c++ c')).toEqual(['a.b', 'c++']);
});
test('the longest of two words that start alike is marked', () => {
  expect(found(['data', 'data base'], 'data base, data')).toEqual(['data base', 'data']);
});
test('without words, nothing is marked', () => {
  expect(wordsPattern([' ', ''])).toBeNull();
});
