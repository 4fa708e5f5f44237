import { expect, test } from 'vitest';
import type { Compaction, CompactionList } from '../api/compactions';
import type { ServerEvent } from '../api/events';
import { task } from '../test/make';
import { Compactions } from './compactions.svelte';

const settle = () => new Promise((r) => setTimeout(r));
const record = (version: number, state: Compaction['state'] = 'active') =>
  ({ id: 'comp_1', state, version, message_count: 12 }) as Compaction;

/** A server with these records; responses wait while the gate is closed. */
class Server {
  data: Compaction[] = [];
  asked = 0;
  fails = false;
  #held: (() => void)[] | null = null;
  hold(): void {
    this.#held = [];
  }
  release(): void {
    for (const go of this.#held?.splice(0) ?? []) go();
    this.#held = null;
  }
  list = async (): Promise<CompactionList> => {
    this.asked++;
    const { data } = this;
    if (this.#held) await new Promise<void>((go) => this.#held?.push(go));
    if (this.fails) throw new Error('down');
    const window = { from_seq: 20, message_count: 12, compaction_ids: ['comp_1'] };
    return { object: 'list', data, has_more: false, first_id: null, last_id: null, window };
  };
}
const opened = async (server: Server) => {
  const list = new Compactions(server.list, { id: 'thread_1', isFork: false });
  await list.refresh();
  server.asked = 0;
  return list;
};
const changed = (type: string, x: object) => ({ type, data: { compaction: x } }) as unknown as ServerEvent;
const here = { thread_id: 'thread_1', fork_id: null };

test('a burst of events causes one more load, and the last state wins', async () => {
  const server = new Server();
  const list = await opened(server);
  server.hold();
  list.onEvent(changed('compaction.created', here));
  server.data = [record(1)];
  for (let n = 0; n < 5; n++) list.onEvent(changed('compaction.updated', here));
  server.release();
  await settle();
  await settle();
  expect(server.asked).toBe(2);
  expect(list.all.map((r) => r.version)).toEqual([1]);
});
test('only events of the conversation count: a dive is another one than its thread', async () => {
  const server = new Server();
  const list = await opened(server);
  list.onEvent(changed('compaction.created', { thread_id: 'thread_1', fork_id: 'fork_1' }));
  list.onEvent(changed('compaction.created', { thread_id: 'thread_2', fork_id: null }));
  const ended = (x: object) =>
    ({ type: 'task.status_changed', data: { task: task(x) } }) as unknown as ServerEvent;
  list.onEvent(ended({ status: 'running' }));
  list.onEvent(ended({ status: 'completed', fork_id: 'fork_1' }));
  expect(server.asked).toBe(0);
  list.onEvent(ended({ status: 'completed' }));
  expect(server.asked).toBe(1);
});
test('a failed load keeps what is shown', async () => {
  const server = new Server();
  server.data = [record(1)];
  const list = await opened(server);
  server.fails = true;
  await list.refresh();
  expect([list.all.length, list.window?.message_count]).toEqual([1, 12]);
});
test('a record that the user makes again is not said to have changed, until it is new', async () => {
  const server = new Server();
  server.data = [record(1)];
  const list = await opened(server);
  list.remake(list.all[0]!);
  expect(list.isRemade(list.all[0]!)).toBe(true);
  const states: [Compaction, boolean][] = [
    [record(2, 'stale'), true],
    [record(3), false],
    [record(4, 'stale'), false],
  ];
  for (const [next, isRemade] of states) {
    server.data = [next];
    await list.refresh();
    expect(list.isRemade(list.all[0]!)).toBe(isRemade);
  }
});
