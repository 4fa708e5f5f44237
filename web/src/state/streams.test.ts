import { expect, test } from 'vitest';
import { Streams } from './streams.svelte';

const delta = (offset: number, text: string, attempt = 1) => ({
  type: 'task.delta' as const,
  task_id: 'task_1',
  message_id: 'msg_1',
  attempt,
  offset,
  text,
});

test('deltas that fit are appended', () => {
  const s = new Streams();
  expect(s.delta(delta(0, 'Hel'))).toBe(true);
  expect(s.delta(delta(3, 'lo'))).toBe(true);
  expect(s.map.get('msg_1')!.text).toBe('Hello');
});
test('offsets are UTF-16 units', () => {
  const s = new Streams();
  s.delta(delta(0, '👩‍💻'));
  expect(s.delta(delta(5, ' ok'))).toBe(true);
  expect(s.map.get('msg_1')!.text).toBe('👩‍💻 ok');
});
test('a gap requests a new subscription, whose whole text continues in place', () => {
  const s = new Streams();
  s.delta(delta(0, 'One '));
  expect(s.delta(delta(8, 'three'))).toBe(false);
  expect(s.delta(delta(0, 'One two three'))).toBe(true);
  expect(s.delta(delta(13, '.'))).toBe(true);
  expect(s.map.get('msg_1')!.text).toBe('One two three.');
});
test('joining late without the head is a gap', () => {
  expect(new Streams().delta(delta(7, 'x'))).toBe(false);
});
test('a duplicate delta changes nothing', () => {
  const s = new Streams();
  s.delta(delta(0, 'Hello'));
  expect(s.delta(delta(0, 'Hel'))).toBe(true);
  expect(s.delta(delta(3, 'lo, you'))).toBe(true);
  expect(s.map.get('msg_1')!.text).toBe('Hello, you');
});
test('a new attempt starts again at 0; deltas of the old one are dropped', () => {
  const s = new Streams();
  s.delta(delta(0, 'First try'));
  expect(s.delta(delta(0, 'Second', 2))).toBe(true);
  expect(s.delta(delta(9, ' more', 1))).toBe(true);
  expect(s.map.get('msg_1')!.text).toBe('Second');
  expect(s.map.get('msg_1')!.attempt).toBe(2);
  expect(s.delta(delta(4, 'x', 3))).toBe(false);
});
test('an attempt after a tool call continues the text', () => {
  const s = new Streams();
  s.delta(delta(0, 'Let me see.\n'));
  s.delta(delta(0, 'Let me see.\n\n', 2));
  s.delta(delta(13, 'Monday.', 2));
  expect(s.map.get('msg_1')!.text).toBe('Let me see.\n\nMonday.');
  expect(s.map.get('msg_1')!.since).toBe(1);
  s.delta(delta(0, 'Again', 3));
  expect(s.map.get('msg_1')!.since).toBe(3);
});
test('deltas after the end are ignored', () => {
  const s = new Streams();
  s.delta(delta(0, 'Done'));
  s.end('msg_1');
  expect(s.delta(delta(4, ' late'))).toBe(true);
  expect(s.map.size).toBe(0);
});
