import { expect, test } from 'vitest';
import { sharedText, withShared } from './shared-text';

const of = (query: Record<string, string>) => sharedText(new URLSearchParams(query));

test('title, text, and link are lines, and none is repeated', () => {
  expect(of({ title: 'Plans', text: 'See you there', url: 'https://example.com' })).toBe(
    'Plans\nSee you there\nhttps://example.com',
  );
  expect(of({ text: 'Look: https://example.com', url: 'https://example.com' })).toBe(
    'Look: https://example.com',
  );
  expect(of({ title: 'Plans', text: 'Plans' })).toBe('Plans');
  expect(of({ title: ' ', text: '' })).toBe('');
});
test('a draft is kept above the shared text', () => {
  expect(withShared('', 'https://example.com')).toBe('https://example.com');
  expect(withShared('Have a look \n', 'https://example.com')).toBe('Have a look\nhttps://example.com');
});
