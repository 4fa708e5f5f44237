import { expect, test } from 'vitest';
import { StickToEnd } from './stick.svelte';

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
