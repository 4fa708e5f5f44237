import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { ServerEvent } from '../api/events';
import { ApiError, Unreachable } from '../api/problem';
import type { SearchHit, SearchPage } from '../api/search';
import { channel, message, thread } from '../test/make';
import { groupsOf, SearchList } from './search-list.svelte';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const hit = (seq: number, x: Partial<SearchHit> = {}): SearchHit => ({
  ...message({ seq, content: `launch ${seq}` }),
  object: 'search_hit',
  highlight: `<mark>launch</mark> ${seq}`,
  thread_title: null,
  thread_title_highlight: null,
  fork_title: null,
  fork_title_highlight: null,
  fork_status: null,
  channel_name: 'general',
  reply_count: 0,
  ...x,
});
const page = (hits: SearchHit[], next: string | null = null): SearchPage => ({
  data: hits,
  has_more: next !== null,
  next_cursor: next,
});
type Asked = { q: string; limit?: number; cursor?: string };
/** Server stub that responds in request order, when the test releases it. */
function scene() {
  const asked: Asked[] = [];
  const waiting: { done: (p: SearchPage) => void; fail: (e: unknown) => void }[] = [];
  const list = new SearchList(
    {
      find: (of) => {
        asked.push(of);
        return new Promise((done, fail) => waiting.push({ done, fail }));
      },
    },
    'user_me',
  );
  const answer = async (p: SearchPage | Error) => {
    const next = waiting.shift()!;
    if (p instanceof Error) next.fail(p);
    else next.done(p);
    await vi.advanceTimersByTimeAsync(0);
  };
  const ids = () => list.hits.map((h) => h.seq);
  const receive = (type: ServerEvent['type'], data: object) =>
    list.onEvent({ type, seq: 1, ts: '', data } as unknown as ServerEvent);
  return { list, asked, answer, ids, onEvent: receive };
}

test('the share of indexed messages is known while the server rebuilds its index', async () => {
  const { list, answer } = scene();
  void list.load('launch');
  await answer({ ...page([hit(9)]), index: { state: 'building', done: 0.4 } });
  expect(list.indexed).toBe(0.4);
  void list.load('lunch');
  await answer(page([]));
  expect(list.indexed).toBeNull();
});

test('hits are grouped by thread, the thread with the newest one first', async () => {
  const { list, answer } = scene();
  void list.load('launch');
  await answer(page([hit(9), hit(8, { thread_id: 'thread_2' }), hit(7)]));
  expect(groupsOf(list.hits).map((g) => [g.thread, g.hits.map((h) => h.seq)])).toEqual([
    ['thread_1', [9, 7]],
    ['thread_2', [8]],
  ]);
});
test('a response to an outdated query is ignored', async () => {
  const { list, asked, answer, ids } = scene();
  void list.load('la');
  void list.load('launch');
  await answer(page([hit(1)]));
  expect(list.status).toBe('loading');
  await answer(page([hit(2)]));
  expect(ids()).toEqual([2]);
  expect(asked.map((a) => a.q)).toEqual(['la', 'launch']);
});
test('the next page is appended, each hit once', async () => {
  const { list, asked, answer, ids } = scene();
  void list.load('launch');
  await answer(page([hit(9), hit(8)], 'c1'));
  void list.loadMore();
  await answer(page([hit(8), hit(7)]));
  expect(ids()).toEqual([9, 8, 7]);
  expect(asked[1]).toMatchObject({ cursor: 'c1' });
  expect(list.more).toBe(false);
});
test('a failed next page keeps the hits and shows an error', async () => {
  const { list, answer, ids } = scene();
  void list.load('launch');
  await answer(page([hit(9)], 'c1'));
  void list.loadMore();
  await answer(new Unreachable(false));
  expect(ids()).toEqual([9]);
  expect(list.status).toBe('ready');
  expect(list.stuck).not.toBe('');
});
test('a deleted message is removed, also from a response in flight', async () => {
  const { list, answer, ids, onEvent: receive } = scene();
  void list.load('launch');
  await answer(page([hit(9), hit(8)], 'c1'));
  receive('message.deleted', { message: message({ seq: 9, deleted_at: 'now' }) });
  expect(ids()).toEqual([8]);
  void list.loadMore();
  receive('message.deleted', { message: message({ seq: 7, deleted_at: 'now' }) });
  await answer(page([hit(7), hit(6)]));
  expect(ids()).toEqual([8, 6]);
});
test('an edited hit is searched again, once for all saves; hits further down stay as they were', async () => {
  const { list, asked, answer, ids, onEvent: receive } = scene();
  void list.load('launch');
  await answer(page([hit(9), hit(8)], 'c1'));
  void list.loadMore();
  await answer(page([hit(7)], 'c2'));
  receive('message.updated', { message: message({ seq: 9, content: 'lunch' }) });
  receive('message.updated', { message: message({ seq: 9, content: 'brunch' }) });
  receive('message.updated', { message: message({ seq: 8, content: 'launch 8' }) }); // a reaction, not new text
  await vi.advanceTimersByTimeAsync(1000);
  expect(asked.length).toBe(3);
  await answer(page([hit(8, { highlight: 'new' })], 'c3'));
  expect(ids()).toEqual([8, 7]);
  expect(list.hits[0]!.highlight).toBe('new');
});
test('hits of a private channel that I leave are removed; a renamed thread is searched again', async () => {
  const { list, asked, answer, ids, onEvent: receive } = scene();
  void list.load('launch');
  await answer(page([hit(9, { channel_id: 'chan_2' }), hit(8)]));
  receive('thread.updated', { thread: thread({ title: 'Launch day' }) });
  await vi.advanceTimersByTimeAsync(1000);
  expect(asked.length).toBe(2);
  await answer(page([hit(9, { channel_id: 'chan_2' }), hit(8, { thread_title: 'Launch day' })]));
  receive('channel.member_removed', {
    channel: channel({ id: 'chan_2', kind: 'private' }),
    user_id: 'user_bo',
  });
  expect(ids()).toEqual([9, 8]);
  receive('channel.member_removed', {
    channel: channel({ id: 'chan_2', kind: 'private' }),
    user_id: 'user_me',
  });
  expect(ids()).toEqual([8]);
});
test('the kind of error determines the next step', async () => {
  const { list, answer } = scene();
  void list.load('-launch');
  await answer(new ApiError(400, { error: { code: 'invalid_query', message: 'say what to find' } }, ''));
  expect([list.status, list.cause, list.problem]).toEqual(['error', 'query', 'Say what to find']);
  void list.load('launch');
  await answer(new Unreachable(false));
  expect([list.status, list.cause]).toEqual(['error', 'network']);
  void list.load('launch');
  await answer(page([]));
  expect([list.status, list.hits.length]).toEqual(['ready', 0]);
  await list.load('');
  expect(list.status).toBe('idle');
});
