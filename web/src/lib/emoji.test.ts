import { expect, test } from 'vitest';
import { searchEmoji } from './emoji';

test('emoji are found by name', () => {
  expect(searchEmoji('tada', 1)[0]!.char).toBe('🎉');
});
