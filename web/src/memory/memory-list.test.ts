import { expect, test } from 'vitest';
import type { ServerEvent } from '../api/events';
import type { Memory, MemoryApi } from '../api/memory';
import { MemoryList } from './memory-list.svelte';

type Query = Parameters<MemoryApi['list']>[0];
const settle = () => new Promise((r) => setTimeout(r));
const entry = (id: string) => ({ id, text: id }) as Memory;
const changed = (memory_id: string, action: string, scope = 'user') =>
  ({ type: 'memory.changed', data: { memory_id, action, scope } }) as ServerEvent;

/** A server with these entries; responses wait while the gate is closed. */
class Server {
  ids: string[];
  asked: Query[] = [];
  fails = false;
  #held: (() => void)[] | null = null;
  constructor(ids: string[]) {
    this.ids = ids;
  }
  hold(): void {
    this.#held = [];
  }
  release(): void {
    for (const go of this.#held?.splice(0) ?? []) go();
    this.#held = null;
  }
  list = async (query: Query) => {
    this.asked.push(query);
    const ids = this.ids.filter((id) => !query.q || id.includes(query.q));
    const from = query.cursor ? ids.indexOf(query.cursor) + 1 : 0;
    const page = ids.slice(from, from + query.limit);
    const has_more = from + query.limit < ids.length;
    if (this.#held) await new Promise<void>((go) => this.#held?.push(go));
    if (this.fails) throw new Error('down');
    return { data: page.map(entry), has_more, next_cursor: has_more ? page.at(-1)! : null };
  };
}
const many = (n: number) => Array.from({ length: n }, (_, i) => `e${String(n - i).padStart(3, '0')}`);
const ids = (list: MemoryList) => list.entries.map((e) => e.id);

test('pages follow each other, and a refresh keeps as many as were loaded', async () => {
  const server = new Server(many(150));
  const list = new MemoryList(server, {});
  await list.load();
  expect([list.entries.length, list.more]).toEqual([20, true]);
  while (list.entries.length < 110) await list.loadMore();
  server.ids = ['new', ...server.ids];
  server.asked = [];
  await list.refresh();
  expect(server.asked.map((q) => q.limit)).toEqual([100, 20]);
  expect(ids(list).slice(0, 2)).toEqual(['new', 'e150']);
  expect(new Set(ids(list)).size).toBe(list.entries.length);
  expect(list.entries.length).toBeGreaterThanOrEqual(110);
});
test('events of a burst cause one more load, and a deletion none', async () => {
  const server = new Server(['b', 'a']);
  const list = new MemoryList(server, { scope: 'user' });
  await list.load();
  list.onEvent(changed('a', 'deleted'));
  expect([ids(list), server.asked.length]).toEqual([['b'], 1]);
  list.onEvent(changed('x', 'created', 'agent'));
  expect(server.asked).toHaveLength(1);
  server.hold();
  for (const id of ['c', 'd', 'e']) {
    server.ids = [id, ...server.ids.filter((x) => x !== 'a')];
    list.onEvent(changed(id, 'created'));
  }
  list.onEvent(changed('b', 'deleted'));
  server.ids = server.ids.filter((x) => x !== 'b');
  server.release();
  await settle();
  expect(ids(list)).toEqual(['e', 'd', 'c']);
  expect(server.asked).toHaveLength(3);
});
test('the last search wins, and is repeated by events', async () => {
  const server = new Server(['ab', 'a', 'b']);
  const list = new MemoryList(server, {});
  await list.load();
  server.hold();
  const first = list.search('a');
  const second = list.search(' b ');
  server.release();
  await Promise.all([first, second]);
  expect(ids(list)).toEqual(['ab', 'b']);
  server.ids = ['bb', ...server.ids];
  list.onEvent(changed('bb', 'created'));
  await settle();
  expect(ids(list)).toEqual(['bb', 'ab', 'b']);
});
test('an error keeps what is loaded', async () => {
  const server = new Server(['a']);
  const list = new MemoryList(server, {});
  server.fails = true;
  await list.load();
  expect([list.status, list.problem !== '']).toEqual(['error', true]);
  server.fails = false;
  await list.load();
  expect([list.status, list.problem]).toEqual(['ready', '']);
  server.fails = true;
  await list.refresh();
  expect([list.status, ids(list)]).toEqual(['ready', ['a']]);
  expect(list.problem).not.toBe('');
});
