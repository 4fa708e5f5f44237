import { expect, test } from 'vitest';
import type { KeyValueStore } from '../lib/storage';
import { SuggestionDays } from './days';
import { deepTalkers, isBusy, type Spoken } from './deep-talk';
import { labeledThreads } from './labeled-threads';

const spoken = (lines: string): Spoken[] =>
  lines
    .trim()
    .split('\n')
    .map((line) => {
      const [author = '', minute = '', ...words] = line.split(' ');
      return { author, at: Number(minute) * 60_000, text: words.join(' ') };
    });
const precision = (rule: (messages: Spoken[]) => boolean): [number, number] => {
  const found = labeledThreads.filter((thread) => rule(spoken(thread.lines)));
  return [found.filter((thread) => thread.isDeep).length / found.length, found.length];
};
const DEEP = labeledThreads[0]?.lines ?? '';

test('at least eight of ten suggestions are right, against half of them by the number of messages alone', () => {
  expect(labeledThreads.length).toBe(40);
  const [ours, count] = precision((messages) => deepTalkers(messages) !== null);
  const [baseline, busy] = precision(isBusy);
  expect([count, busy]).toEqual([4, 39]);
  expect(ours).toBeGreaterThanOrEqual(0.8);
  expect(baseline).toBeLessThan(0.5);
});
test('the two people in the discussion are returned, and nobody else', () => {
  expect(deepTalkers(spoken(DEEP))).toEqual(['a', 'b']);
  expect(deepTalkers(spoken(`${DEEP}\nc 10 Nice`))).toEqual(['a', 'b']);
});
test('a slow, one-sided, or short discussion gets no suggestion', () => {
  expect(deepTalkers(spoken(DEEP).map((m) => ({ ...m, at: m.at * 3 })))).toBeNull();
  expect(deepTalkers(spoken(DEEP).map((m, n) => ({ ...m, author: n < 8 ? 'a' : 'b' })))).toBeNull();
  expect(deepTalkers(spoken(DEEP).slice(0, 7))).toBeNull();
  expect(deepTalkers([])).toBeNull();
});

class MemoryStore implements KeyValueStore {
  readonly all = new Map<string, string>();
  get = (key: string) => this.all.get(key) ?? null;
  set = (key: string, value: string) => {
    this.all.set(key, value);
    return true;
  };
  remove = (key: string) => void this.all.delete(key);
  keys = (prefix: string) => [...this.all.keys()].filter((key) => key.startsWith(prefix));
  watch = () => () => undefined;
}

test('a thread gets one suggestion a day on a device, and old days are forgotten', () => {
  const store = new MemoryStore();
  const days = new SuggestionDays(store, 'user_1');
  const [today, tomorrow] = [new Date(2026, 10, 23, 9), new Date(2026, 10, 24, 9)];
  expect(days.claim('thread_1', today)).toBe(true);
  expect(days.claim('thread_1', today)).toBe(false);
  expect(days.claim('thread_2', today)).toBe(true);
  expect(new SuggestionDays(store, 'user_2').claim('thread_1', today)).toBe(true);
  expect(days.claim('thread_1', tomorrow)).toBe(true);
  expect(store.get('openvibe.suggested.user_1')).toBe('{"thread_1":"2026-11-24"}');
  store.set('openvibe.suggested.user_1', 'broken');
  expect(days.claim('thread_1', tomorrow)).toBe(true);
});
