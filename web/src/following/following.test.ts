// @vitest-environment happy-dom
import { flushSync } from 'svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { FollowedConversation } from '../api/following';
import { mine, Scene } from '../test/backend';
import { fork, thread } from '../test/make';
import { Following } from './following.svelte';
import { latestOf, openedOf, titleOf, unreadFirst, unreadIn } from './words';

let scene: Scene;
let list: Following;
const ids = () => {
  flushSync();
  return list.rows.map((row) => row.id);
};
const ofThread = (id: string, last_seq: number): FollowedConversation =>
  ({
    kind: 'thread',
    thread: thread({ id, title: id, last_seq, follow: ALL }),
    fork: null,
    variants: [],
  }) as never;
const ALL = { level: 'all', cause: 'manual' } as const;

beforeEach(async () => {
  vi.useFakeTimers();
  scene = new Scene();
  await scene.ws.start();
  scene.backend.following = [
    ofThread('thread_a', 9),
    {
      kind: 'fork',
      thread: null,
      fork: { ...fork({ id: 'fork_b', title: 'Dive' }), follow: ALL, unread_count: 0 },
      variants: [],
    } as never,
    ofThread('thread_c', 5),
  ];
  list = new Following(scene.ws);
  await list.load();
});
afterEach(() => {
  list.dispose();
  scene.ws.stop();
  vi.useRealTimers();
});

test('a message moves its conversation to the top, and counts as unread', () => {
  expect(ids()).toEqual(['thread_a', 'fork_b', 'thread_c']);
  scene.created({ thread_id: 'thread_c' });
  expect(ids()).toEqual(['thread_c', 'thread_a', 'fork_b']);
  scene.created({ thread_id: 'thread_9', fork_id: 'fork_b' });
  expect(ids()).toEqual(['fork_b', 'thread_c', 'thread_a']);
  expect(list.rows.map(unreadIn)).toEqual([1, 1, 0]);
  expect(unreadFirst(list.rows).map(titleOf)).toEqual(['Dive', 'thread_c', 'thread_a']);
});
test('only what follows a conversation loads the list again, once', async () => {
  const loads = () => scene.backend.calls.filter((call) => call === 'GET /v1/following').length;
  scene.created({ thread_id: 'thread_9' });
  await vi.advanceTimersByTimeAsync(1000);
  expect(loads()).toBe(1);
  scene.created({ ...mine(), seq: 300, thread_id: 'thread_9' });
  scene.created({ ...mine(), seq: 301, thread_id: 'thread_10' });
  await vi.advanceTimersByTimeAsync(1000);
  expect(loads()).toBe(2);
});
test('a chat and its variants are one row, which opens an unread version', async () => {
  const base = { thread_id: 'thread_e', message_id: 'msg_3' };
  const variant = thread({ id: 'thread_v', last_seq: 7, variant_of: base, unread_count: 2 });
  const chat = { ...ofThread('thread_e', 8), kind: 'chat', variants: [variant] } as never;
  scene.backend.following = [ofThread('thread_a', 9), chat];
  await list.load();
  expect(ids()).toEqual(['thread_a', 'thread_e']);
  const row = list.rows[1]!;
  if (row.kind === 'fork') throw new Error('not a chat');
  expect([unreadIn(row), latestOf(row).id, openedOf(row).id]).toEqual([2, 'thread_e', 'thread_v']);
  scene.created({ thread_id: 'thread_v' });
  expect(ids()).toEqual(['thread_e', 'thread_a']);
  scene.event('thread.deleted', { thread_id: 'thread_v', channel_id: 'chan_1' });
  flushSync();
  expect(unreadIn(list.rows[0]!)).toBe(0);
});
