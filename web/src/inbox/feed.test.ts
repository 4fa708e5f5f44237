// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { InboxChanges } from '../api/inbox';
import { inboxItem } from '../test/inbox';
import { InboxFeed } from './feed.svelte';

let asked: number[];
let answer: InboxChanges;
let reaches: boolean;
let feed: InboxFeed;
beforeEach(() => {
  vi.useFakeTimers();
  asked = [];
  answer = { data: [], open: 3, seq: 20, resync: false };
  reaches = true;
  feed = new InboxFeed({
    changes: (since) => {
      asked.push(since);
      return Promise.resolve(answer);
    },
    reaches: () => reaches,
    random: () => 1,
  });
  feed.load({ open: 2, seq: 10 });
});
afterEach(() => {
  feed.dispose();
  vi.useRealTimers();
});

test('causes that come together need one request within 500 ms', async () => {
  feed.soon();
  feed.soon();
  await vi.advanceTimersByTimeAsync(500);
  expect(asked).toEqual([10]);
  expect(feed.open).toBe(3);
  feed.soon();
  await vi.advanceTimersByTimeAsync(500);
  expect(asked).toEqual([10, 20]);
});
test('items of channels are requested within 10 s, and soon while the inbox is on screen', async () => {
  feed.spread();
  await vi.advanceTimersByTimeAsync(9000);
  expect(asked).toEqual([]);
  await vi.advanceTimersByTimeAsync(1000);
  expect(asked).toEqual([10]);
  feed.spread();
  feed.soon(); // the earlier time counts
  await vi.advanceTimersByTimeAsync(500);
  expect(asked).toHaveLength(2);
  feed.onScreen = true;
  feed.spread();
  await vi.advanceTimersByTimeAsync(500);
  expect(asked).toHaveLength(3);
});
test('a list gets the changes, and a new snapshot makes it load again', async () => {
  const changed = vi.fn();
  const stop = feed.follow({ changed, read: () => undefined });
  answer = { ...answer, data: [inboxItem()] };
  feed.soon();
  await vi.advanceTimersByTimeAsync(500);
  expect(changed).toHaveBeenLastCalledWith(answer);
  feed.load({ open: 7, seq: 30 });
  expect(changed).toHaveBeenLastCalledWith({ data: [], open: 7, seq: 30, resync: true });
  stop();
  feed.load({ open: 8, seq: 31 });
  expect(changed).toHaveBeenCalledTimes(2);
});
test('a change of this window is counted at once, and the server is asked after it', async () => {
  const confirm = feed.shift(-1);
  expect(feed.open).toBe(1);
  feed.soon();
  await vi.advanceTimersByTimeAsync(500);
  expect(feed.open).toBe(1);
  answer = { ...answer, open: 1 };
  confirm();
  await vi.advanceTimersByTimeAsync(500);
  expect([feed.open, asked.length]).toEqual([1, 2]);
});
test('without a connection nothing is sent; the next one asks', async () => {
  reaches = false;
  feed.soon();
  await vi.advanceTimersByTimeAsync(20_000);
  expect(asked).toEqual([]);
  reaches = true;
  feed.soon();
  await vi.advanceTimersByTimeAsync(500);
  expect(asked).toEqual([10]);
});
