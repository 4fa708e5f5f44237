import { expect, test } from 'vitest';
import { store } from '../test/make';
import { wasAway } from './away';

test('the user was away after 4 hours, but not on a first visit', () => {
  const device = store();
  const now = Date.parse('2026-01-05T13:00:00.000Z');
  expect(wasAway(device, 'seen', now)).toBe(false);
  device.set('seen', `${Date.parse('2026-01-05T09:00:01.000Z')}`);
  expect(wasAway(device, 'seen', now)).toBe(false);
  device.set('seen', `${Date.parse('2026-01-05T09:00:00.000Z')}`);
  expect(wasAway(device, 'seen', now)).toBe(true);
});
