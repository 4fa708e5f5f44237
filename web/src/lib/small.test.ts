import { expect, test } from 'vitest';
import { AT, message, task, thread } from '../test/make';
import { chipText, waitText } from './chip';
import { searchEmoji } from './emoji';
import { commandFor, isCommandKey } from './keys';
import { bestMatches } from './match';
import { StickToEnd } from './stick.svelte';
import { initials, listed, plain, threadTitle, hueOf } from './text';
import { dayOf } from './time';

const key = (k: string, m: object = {}) => ({
  key: k,
  metaKey: false,
  ctrlKey: false,
  altKey: false,
  shiftKey: false,
  ...m,
});

test('on Apple platforms Ctrl keeps its meaning in text, and Cmd is the modifier', () => {
  expect(commandFor(key('f', { ctrlKey: true }), true, true)).toBeNull();
  expect(commandFor(key('f', { metaKey: true }), true, true)).toBe('find');
  expect(commandFor(key('f', { ctrlKey: true }), true, false)).toBe('find');
  expect([
    isCommandKey(key('b', { ctrlKey: true }), true),
    isCommandKey(key('b', { metaKey: true }), true),
  ]).toEqual([false, true]);
});
test('plain shortcuts do nothing while typing, those with a modifier do', () => {
  expect(commandFor(key('j'), false)).toBe('next-message');
  expect(commandFor(key('j'), true)).toBeNull();
  expect(commandFor(key('k', { ctrlKey: true }), true)).toBe('switcher');
  expect(commandFor(key('F', { metaKey: true, shiftKey: true }), true)).toBe('search');
  expect(commandFor(key('f', { ctrlKey: true }), true)).toBe('find');
  expect(commandFor(key(']'), false)).toBe('next-unread-thread');
  expect(commandFor(key(']'), true)).toBeNull();
  expect(commandFor(key('ArrowDown', { altKey: true, shiftKey: true }), true)).toBe('next-unread');
  expect(commandFor(key('/', { isComposing: true }), false)).toBeNull();
});
test('the switcher prefers the start of the name, then the start of a word', () => {
  const all = ['infra-general', 'general', 'genesis', 'random'].map((title) => ({ title }));
  expect(bestMatches(all, 'gen', 9).map((x) => x.title)).toEqual(['general', 'genesis', 'infra-general']);
  expect(bestMatches(all, 'rdm', 9).map((x) => x.title)).toEqual(['random']);
});
test('a thread is named by its title, else by its first line', () => {
  const root_message = message({ content_plain: '\nShip on Monday?\nOr later' });
  expect(threadTitle(thread({ root_message }))).toBe('Ship on Monday?');
  expect(threadTitle(thread({ title: 'Launch', root_message }))).toBe('Launch');
  expect(threadTitle(undefined)).toBe('Thread');
});
test('a preview has no marks', () => {
  expect(plain('**Ship** [it](http://x)\n\n```rs\nlet a;\n```\n- now')).toBe('Ship it code now');
});
test('small text helpers', () => {
  expect(initials('Ada Lindholm Berg')).toBe('AL');
  expect(listed(['A', 'B', 'C'])).toBe('A, B and C');
  expect(searchEmoji('tada', 1)[0]!.char).toBe('🎉');
});
test('days have familiar names', () => {
  const now = new Date(2026, 0, 8, 12);
  const at = (day: number) => new Date(2026, 0, day, 9).toISOString();
  expect(dayOf(at(8), now)).toBe('Today');
  expect(dayOf(at(7), now)).toBe('Yesterday');
  expect(dayOf(at(5), now)).toBe('Monday');
  expect(dayOf(new Date(2025, 10, 2).toISOString(), now)).toBe('2 November 2025');
});
test('the chip shows the state of the task', () => {
  const now = Date.parse(AT) + 7200;
  const textOf = (x: object, writing = false) =>
    chipText(task(x), { now, writing, me: 'user_me', stopped: () => 'You' });
  expect(textOf({})).toBe('Queued');
  expect(textOf({ status: 'running', started_at: AT })).toBe('Reading the thread');
  expect(textOf({ status: 'running', started_at: AT }, true)).toBe('Writing 7 s');
  expect(textOf({ retry_at: '2026-01-05T09:00:12.000Z', attempt: 2 })).toBe('Retrying in 5 s · attempt 2');
  expect(textOf({ status: 'completed', started_at: AT, completed_at: '2026-01-05T09:00:06.400Z' })).toBe(
    '6.4 s',
  );
  expect(textOf({ status: 'failed' })).toBe('Failed');
  expect(waitText(task({ retry_at: AT, wait_reason: 'unavailable' }), 'Vibe')).toContain(
    'The same request will be sent again',
  );
});
test('only user input releases the list from its end', () => {
  let now = 0;
  const stick = new StickToEnd(() => now);
  const at = (scrollTop: number) =>
    stick.scrolled({ scrollHeight: 1000, clientHeight: 200, scrollTop }, false);
  at(400);
  expect(stick.stuck).toBe(true); // rows were measured
  stick.touch();
  at(400);
  expect(stick.stuck).toBe(false);
  at(790);
  expect(stick.stuck).toBe(true);
  now = 5000;
  at(400);
  expect(stick.stuck).toBe(true);
});
test('the end of a page with more below is not the end of the list', () => {
  const stick = new StickToEnd(() => 0);
  const end = { scrollHeight: 1000, clientHeight: 200, scrollTop: 800 };
  stick.leave();
  stick.arrived(end, true);
  expect(stick.stuck).toBe(false);
  stick.scrolled(end, true);
  expect(stick.stuck).toBe(false);
  stick.scrolled(end, false);
  expect(stick.stuck).toBe(true);
});

test('people and agents have twelve hues, at least 25 degrees apart', () => {
  const hues = [...new Set(Array.from({ length: 2000 }, (_, n) => hueOf(`agent_${n}`)))].sort(
    (a, b) => a - b,
  );
  expect(hues).toHaveLength(12);
  for (const [i, hue] of hues.entries())
    expect((hues[(i + 1) % 12]! - hue + 360) % 360).toBeGreaterThanOrEqual(25);
});
