import { expect, test } from 'vitest';
import { dayOf } from './time';

test('days have familiar names', () => {
  const now = new Date(2026, 0, 8, 12);
  const at = (day: number) => new Date(2026, 0, day, 9).toISOString();
  expect(dayOf(at(8), now)).toBe('Today');
  expect(dayOf(at(7), now)).toBe('Yesterday');
  expect(dayOf(at(5), now)).toBe('Monday');
  expect(dayOf(new Date(2025, 10, 2).toISOString(), now)).toBe('2 November 2025');
});
