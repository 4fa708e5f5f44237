import { afterEach, expect, test } from 'vitest';
import { useClock } from '../lib/time';
import { instantText, localText, pausedText, slotText, timesText } from './words';

const NOW = new Date(2026, 10, 23, 12);
afterEach(() => useClock('24'));

test('local times are shown as they are in their zone', () => {
  expect(localText('2026-11-24T09:00', NOW)).toBe('Tue 24 November, 09:00');
  expect(localText('2026-11-24 09:00:00', NOW)).toBe('Tue 24 November, 09:00');
  expect(localText('2026-03-29T02:30:00+03:00', NOW)).toBe('Sun 29 March, 02:30');
  expect(localText('2027-01-01T00:00:00', NOW)).toBe('Fri 1 January 2027, 00:00');
});

test('instants are shown in the time zone of the browser', () => {
  expect(instantText(new Date(2026, 10, 24, 9, 5).toISOString(), NOW)).toBe('Tue 24 November, 09:05');
});

test('times are in words, and custom ones are a cron expression', () => {
  expect(timesText('0 9 * * *')).toBe('Every day at 09:00');
  expect(timesText('0 9 * * mon-fri')).toBe('Weekdays at 09:00');
  expect(timesText('15 14 * * 7')).toBe('Every week on Sunday at 14:15');
  expect(timesText('0 9 1 * *')).toBe('Custom (0 9 1 * *)');
  useClock('12');
  expect(timesText('15 14 * * *')).toMatch(/^Every day at 2:15\sPM$/);
});

test('the last slot is shown with its state', () => {
  const at = new Date(2026, 10, 23, 9).toISOString();
  expect(slotText({ at, state: 'fired', task_id: 'task_1' }, NOW)).toBe('Last run: Mon 23 November, 09:00');
  expect(slotText({ at, state: 'missed', task_id: null }, NOW)).toBe('Missed: Mon 23 November, 09:00');
});

test('a pause has its reason', () => {
  const bo = { name: 'Bo', isMember: true, isMe: false };
  expect(pausedText('by_owner', bo)).toBe('Paused.');
  expect(pausedText('by_admin', bo)).toBe('Paused by an admin.');
  expect(pausedText('failing', bo)).toBe('Paused: five runs in a row failed.');
  expect(pausedText('owner_gone', bo)).toBe('Paused: Bo can no longer post there or use the agent.');
  expect(pausedText('owner_gone', { name: 'Mia', isMember: true, isMe: true })).toBe(
    'Paused: you can no longer post there or use the agent.',
  );
  expect(pausedText('owner_gone', { ...bo, isMember: false })).toBe('Paused: Bo left the workspace.');
  expect(pausedText('owner_gone', { ...bo, name: null, isMember: false })).toBe(
    'Paused: its owner left the workspace.',
  );
});
