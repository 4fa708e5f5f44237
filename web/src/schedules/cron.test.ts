import { expect, test } from 'vitest';
import { cronOf, presetOf } from './cron';

test.each([
  ['0 9 * * *', { when: 'daily', time: '09:00', day: 1 }],
  ['5 17 * * 1-5', { when: 'weekdays', time: '17:05', day: 1 }],
  ['30 0 * * 0', { when: 'weekly', time: '00:30', day: 0 }],
  ['30 0 * * 6', { when: 'weekly', time: '00:30', day: 6 }],
] as const)('%s is a preset and its cron', (cron, preset) => {
  expect(presetOf(cron)).toEqual(preset);
  expect(cronOf(preset)).toBe(cron);
});

test.each([
  ['  00  09 * *  MON-FRI ', '0 9 * * 1-5'],
  ['0 9 * * 7', '0 9 * * 0'],
  ['0 9 * * Sun', '0 9 * * 0'],
])('%s is another spelling of a preset', (cron, same) => {
  expect(cronOf(presetOf(cron)!)).toBe(same);
});

test.each([
  '',
  '0 9 1 * *',
  '*/30 * * * *',
  '0 9,17 * * *',
  '60 9 * * *',
  '0 24 * * *',
  '0 9 * * 8',
  '0 9 * * 1-3',
  '0 9 * * someday',
  '0 9 * * * *',
])('“%s” is not a preset', (cron) => {
  expect(presetOf(cron)).toBeNull();
});
