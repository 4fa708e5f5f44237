import { expect, test } from 'vitest';
import type { Schedule } from '../api/schedules';
import { schedule } from '../test/make-schedules';
import { ScheduleList } from './schedule-list.svelte';

/** A server with these schedules, two on a page. */
function start(stored: Schedule[]) {
  const state = { stored, gate: Promise.resolve() };
  const list = async (after?: string) => {
    const from = state.stored.findIndex((s) => s.id === after) + 1;
    const data = state.stored.slice(from, from + 2);
    const has_more = state.stored.length > from + 2;
    await state.gate;
    return { data, has_more };
  };
  return { state, list: new ScheduleList({ list }) };
}
const numbered = (count: number) => Array.from({ length: count }, (_, n) => schedule({ id: `sched_${n}` }));
const idsOf = (list: ScheduleList) => list.entries.map((s) => s.id);

test('pages are loaded one by one, and again as far as they are loaded', async () => {
  const { state, list } = start(numbered(5));
  await list.refresh();
  expect([idsOf(list), list.more]).toEqual([['sched_0', 'sched_1'], true]);
  await list.loadMore();
  expect(idsOf(list)).toHaveLength(4);
  state.stored = state.stored.slice(1);
  await list.refresh();
  expect([idsOf(list), list.more]).toEqual([['sched_1', 'sched_2', 'sched_3', 'sched_4'], false]);
});

test('a change during a request is loaded after it', async () => {
  const { state, list } = start([]);
  let release = () => {};
  state.gate = new Promise<void>((done) => (release = done));
  const loading = list.refresh();
  state.stored = numbered(1);
  await list.refresh();
  release();
  await loading;
  expect([idsOf(list), list.status]).toEqual([['sched_0'], 'ready']);
});
