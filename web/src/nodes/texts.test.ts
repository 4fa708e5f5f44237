import { expect, test } from 'vitest';
import { node } from '../test/make-nodes';
import { countText, delayText, isClockOff, skewText, uptimeText, warningsOf } from './texts';

const lost = node({ id: 'node_2', name: 'web-2', state: 'lost', is_this: false });

test('lost nodes are not counted', () => {
  expect(countText([node()])).toBe('One server uses this database.');
  expect(countText([node(), lost])).toBe('One server uses this database.');
  expect(countText([node(), { ...lost, state: 'draining' }])).toBe('2 servers use this database.');
});
test.each([
  ['2026-01-05T09:00:30Z', '< 1 min'],
  ['2026-01-05T09:12:00Z', '12 min'],
  ['2026-01-05T13:12:00Z', '4 h 12 min'],
  ['2026-01-08T13:12:00Z', '3 d 4 h'],
  ['2026-01-05T08:00:00Z', '< 1 min'], // the browser's clock is behind
])('at %s, the uptime is %s', (now, text) =>
  expect(uptimeText('2026-01-05T09:00:00Z', new Date(now))).toBe(text),
);
test('delays and clock differences have a unit, and differences a sign', () => {
  expect([0.4, 17.6, 999.4, 999.6, 1520].map(delayText)).toEqual([
    '< 1 ms',
    '18 ms',
    '999 ms',
    '1.0 s',
    '1.5 s',
  ]);
  expect([0, 18, -2400].map(skewText)).toEqual(['0 ms', '+18 ms', '−2.4 s']);
});
test('a clock is off if it differs by more than 2 s', () => {
  const off = (clock_skew_ms: number) => isClockOff(node({ clock_skew_ms }));
  expect([2000, 2001, -2000, -2001].map(off)).toEqual([false, true, false, true]);
});
test('warnings name what differs and what to do', () => {
  expect(warningsOf(node(), 'web-1')).toEqual([]);
  const other = node({ name: 'web-2', is_this: false, clock_skew_ms: 2400 });
  expect(warningsOf({ ...other, differing_settings: ['OPENVIBE_SIGNUP'] }, 'web-1')).toEqual([
    'OPENVIBE_SIGNUP differs from web-1: set the same value on all nodes, then restart those that you changed.',
    'Its clock is 2.4 s ahead of the database’s: synchronize both clocks.',
  ]);
  const two = ['OPENVIBE_MODEL', 'OPENVIBE_SIGNUP'];
  expect(warningsOf(node({ differing_settings: two, clock_skew_ms: -90_000 }), 'web-1')).toEqual([
    'OPENVIBE_MODEL and OPENVIBE_SIGNUP differ from web-1: set the same values on all nodes, then restart those that you changed.',
    'Its clock is 1 min 30 s behind the database’s: synchronize both clocks.',
  ]);
});
test('a node with another key is out of service, and the warning says so', () => {
  const warnings = warningsOf(node({ differing_settings: ['OPENVIBE_SECRET_KEY'] }), 'web-1');
  expect(warnings).toEqual([
    expect.stringContaining('OPENVIBE_SECRET_KEY differs from web-1'),
    expect.stringContaining('the one that started later serves nobody and runs no tasks'),
  ]);
});
test('a bus without credentials and a version that does not encrypt have a warning', () => {
  const open = node({ mode: 'nats', open_nats: 'nats:4222' });
  expect(warningsOf(open, 'web-1')).toEqual([
    expect.stringMatching(/^Anyone who reaches NATS at nats:4222 can/),
  ]);
  const old = node({ mode: 'nats', encrypts_messages: false });
  expect(warningsOf(old, 'web-1')).toEqual([expect.stringContaining('upgrade it')]);
  expect(warningsOf({ ...old, mode: 'notify' }, 'web-1')).toEqual([]);
});
test('the warning of a lost node is that it is lost', () => {
  const warnings = warningsOf(
    { ...lost, differing_settings: ['OPENVIBE_SIGNUP'], clock_skew_ms: 9000 },
    'web-1',
  );
  expect(warnings).toEqual([expect.stringContaining('cannot reach the database')]);
});
