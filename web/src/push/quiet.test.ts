import { expect, test } from 'vitest';
import type { NotificationSettings } from '../api/push';
import { isHeldBack } from './quiet';

const settings = (x: Partial<NotificationSettings>): NotificationSettings => ({
  push: true,
  preview: 'full',
  quiet: null,
  paused_until: null,
  timezone: 'Europe/Berlin',
  mail: 'off',
  version: 1,
  ...x,
});

test('a pause holds notifications back until its end', () => {
  const paused = settings({ paused_until: '2026-01-05T10:00:00.000Z' });
  expect(isHeldBack(paused, new Date('2026-01-05T09:59:00Z'))).toBe(true);
  expect(isHeldBack(paused, new Date('2026-01-05T10:00:00Z'))).toBe(false);
});
test('quiet hours begin and end in the time zone of the settings, also on the next day', () => {
  // January 5 is a Monday; Berlin is an hour ahead of UTC.
  const night = settings({ quiet: { from: '22:00', to: '07:00', days: ['mon'] } });
  const held = (at: string) => isHeldBack(night, new Date(at));
  expect([held('2026-01-05T20:59:00Z'), held('2026-01-05T21:00:00Z')]).toEqual([false, true]);
  expect([held('2026-01-06T05:59:00Z'), held('2026-01-06T06:00:00Z')]).toEqual([true, false]);
  expect(held('2026-01-06T21:30:00Z')).toBe(false);
  const noon = settings({ quiet: { from: '12:00', to: '13:00', days: ['mon'] } });
  expect(isHeldBack(noon, new Date('2026-01-05T11:30:00Z'))).toBe(true);
  expect(isHeldBack(noon, new Date('2026-01-06T11:30:00Z'))).toBe(false);
});
