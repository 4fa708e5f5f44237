import { beforeEach, expect, test } from 'vitest';
import { Api } from '../api/api';
import type { Thread } from '../api/types';
import { Scene } from '../test/backend';
import { message, thread } from '../test/make';
import { ChannelState } from './channel.svelte';
import { Threads } from './threads.svelte';

const PAGE = 30;
const make = (n: number, x: Partial<Thread> = {}) => thread({ id: `thread_${n}`, last_seq: n, ...x });
/** Threads on the server, by last activity. */
let there: Thread[];
let threads: Threads;
let list: ChannelState;
let unreachable = false;

beforeEach(() => {
  unreachable = false;
  there = Array.from({ length: 2000 }, (_, i) => make(i + 1));
  threads = new Threads(() => new Set(list.ids));
  const fetch = (request: Request) => {
    if (unreachable) return Promise.reject(new TypeError('Failed to fetch'));
    const cursor = Number(new URL(request.url).searchParams.get('cursor') ?? Infinity);
    const older = there.filter((t) => t.last_seq < cursor).sort((a, b) => b.last_seq - a.last_seq);
    const data = older.slice(0, PAGE);
    const next_cursor = String(data.at(-1)?.last_seq);
    return Promise.resolve(
      Response.json({ object: 'list', data, has_more: older.length > PAGE, next_cursor }),
    );
  };
  list = new ChannelState('chan_1', {
    api: new Api({ fetch, base: 'http://x' }),
    threads,
    learnThread: (t, version) => {
      threads.learn(t, version);
      list.put(threads.map.get(t.id)!);
    },
    learnTasks: () => undefined,
  });
});
const all = async () => {
  await list.load();
  while (list.more) await list.loadMore();
};
const numbers = () => list.ids.map((id) => Number(id.split('_')[1]));
const down = (from: number, to: number) => Array.from({ length: from - to + 1 }, (_, i) => from - i);

test('all 2,000 threads of a channel are reachable, in order, and none is dropped', async () => {
  await all();
  expect(numbers()).toEqual(down(2000, 1));
  expect(list.ids.every((id) => threads.map.has(id))).toBe(true);
});
test('1,000 new threads elsewhere do not evict the listed ones, and do not accumulate', async () => {
  await list.load();
  for (let i = 0; i < 1000; i++) threads.put(make(5000 + i, { channel_id: 'chan_2' }));
  expect(list.ids.every((id) => threads.map.has(id))).toBe(true);
  expect(threads.map.size).toBeLessThan(600);
});
test('activity moves a thread to the top; a new thread is added there', async () => {
  await list.load();
  threads.put(make(1990, { last_seq: 3000 }));
  list.put(threads.map.get('thread_1990')!);
  threads.put(make(4000));
  list.put(threads.map.get('thread_4000')!);
  expect(numbers().slice(0, 4)).toEqual([4000, 1990, 2000, 1999]);
  expect(numbers().filter((n) => n === 1990)).toHaveLength(1);
});
test('a thread below the loaded part is not listed, so there is no gap', async () => {
  await list.load();
  threads.put(make(5));
  list.put(threads.map.get('thread_5')!);
  expect(numbers()).toEqual(down(2000, 1971));
});
test('a thread that moved up while a page was loading is listed once', async () => {
  await list.load();
  const loading = list.loadMore();
  threads.put(make(1960, { last_seq: 3000 }));
  list.put(threads.map.get('thread_1960')!);
  await loading;
  expect(numbers()).toEqual([1960, ...down(2000, 1961), ...down(1959, 1941)]);
});
test('a page that fails leaves the list as it is, and the next attempt continues there', async () => {
  await list.load();
  unreachable = true;
  await list.loadMore();
  expect([list.status, list.busy, list.more]).toEqual(['ready', false, true]);
  expect(numbers()).toEqual(down(2000, 1971));
  unreachable = false;
  await list.loadMore();
  expect(numbers()).toEqual(down(2000, 1941));
});
test('a first page that fails shows the error until the list can be loaded', async () => {
  unreachable = true;
  await list.load();
  expect([list.status, list.busy, list.problem]).toEqual(['error', false, 'The server cannot be reached.']);
  unreachable = false;
  await list.load();
  expect(list.status).toBe('ready');
  expect(numbers()).toEqual(down(2000, 1971));
});
test('a list that was left keeps its first page and continues from there', async () => {
  await all();
  list.leave();
  expect(numbers()).toEqual(down(2000, 1971));
  await list.loadMore();
  expect(numbers()).toEqual(down(2000, 1941));
});
test('a reply in a thread outside the cache moves it to the top of its open list', async () => {
  const { ws, backend, created } = new Scene();
  await ws.start();
  backend.lists.set('chan_1', [thread({ id: 'thread_1', last_seq: 50 })]);
  await ws.channel('chan_1').load();
  backend.threads.set('thread_old', thread({ id: 'thread_old', last_seq: 200 }));
  created(message({ seq: 200, thread_id: 'thread_old' }));
  await expect.poll(() => ws.channel('chan_1').ids).toEqual(['thread_old', 'thread_1']);
  ws.stop();
});
