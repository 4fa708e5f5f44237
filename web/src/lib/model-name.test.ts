import { expect, test } from 'vitest';
import { modelText } from './model-name';
import { withoutLabel } from './text';

test.each([
  ['claude-sonnet-4-5', 'tiny-model', 'Uses tiny-model instead of claude-sonnet-4-5'],
  ['tiny-model', 'tiny-model', 'tiny-model'],
  [null, 'tiny-model', 'tiny-model'],
  [null, null, 'No model connected'],
  ['claude-sonnet-4-5', null, 'No model connected'],
  ['claude-sonnet-4-5', undefined, 'Asks for claude-sonnet-4-5'],
])('asked for %s, run by %s: %s', (asked, effective, words) =>
  expect(modelText(asked, effective)).toBe(words),
);

test.each([
  [null, 'Uses tiny-model: claude-sonnet-4-5 is not available'],
  ['tiny-model', 'This server uses tiny-model for all agents'],
])('overridden by %s: %s', (overriding, words) =>
  expect(modelText('claude-sonnet-4-5', 'tiny-model', overriding)).toBe(words),
);

test('an excerpt has no author label', () => {
  expect(withoutLabel('[Ada Lindholm]: Ship it')).toBe('Ship it');
  expect(withoutLabel('[a link](https://example.com)')).toBe('[a link](https://example.com)');
  expect(withoutLabel('No label: here')).toBe('No label: here');
});
