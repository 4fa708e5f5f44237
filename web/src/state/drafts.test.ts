import { expect, test } from 'vitest';
import { shelf } from '../test/make';
import { Drafts } from './drafts.svelte';

test('a draft survives a reload', () => {
  const kept = shelf();
  const d = new Drafts(kept, 'd');
  d.set('t:1', 'half a th');
  d.flush();
  expect(new Drafts(kept, 'd').get('t:1')).toBe('half a th');
});
test('sending clears it, also from the device', () => {
  const kept = shelf();
  const d = new Drafts(kept, 'd');
  d.set('t:1', 'x');
  d.clear('t:1');
  expect(d.has('t:1')).toBe(false);
  expect(kept.kept.size).toBe(0);
});
test('blank text is no draft', () => {
  const d = new Drafts(shelf(), 'd');
  d.set('t:1', '  \n');
  expect(d.has('t:1')).toBe(false);
});
test('each composer has its own, and the oldest goes when there are too many', () => {
  const d = new Drafts(shelf(), 'd');
  for (let i = 0; i < 101; i++) d.set(`t:${i}`, 'x');
  expect(d.has('t:0')).toBe(false);
  expect(d.has('t:1')).toBe(true);
});
test('what is on the device but no drafts is ignored', () => {
  const kept = shelf();
  kept.set('d', '[1]');
  expect(new Drafts(kept, 'd').get('0')).toBe('');
});
