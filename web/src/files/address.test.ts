import { expect, test } from 'vitest';
import { filePanel, parseQuote } from './address';

test('an address names a file, its part, and the passage that is marked', () => {
  const quote = { from: 0, to: 80 };
  expect(filePanel('file_1', 12)).toBe('file:file_1:12');
  expect(filePanel('file_1', 12, quote)).toBe('file:file_1:12:0-80');
  expect(parseQuote('0-80')).toEqual(quote);
  expect(parseQuote('x-1')).toBeNull();
  expect(parseQuote('')).toBeNull();
});
