import { expect, test } from 'vitest';
import { bestMatches } from './match';

test('the switcher prefers the start of the name, then the start of a word', () => {
  const all = ['infra-general', 'general', 'genesis', 'random'].map((title) => ({ title }));
  expect(bestMatches(all, 'gen', 9).map((x) => x.title)).toEqual(['general', 'genesis', 'infra-general']);
  expect(bestMatches(all, 'rdm', 9).map((x) => x.title)).toEqual(['random']);
});
