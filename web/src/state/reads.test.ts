import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Scene, type Backend } from '../test/backend';
import { message } from '../test/make';
import type { WorkspaceState } from './workspace.svelte';

let scene: Scene;
let backend: Backend;
let ws: WorkspaceState;

beforeEach(async () => {
  vi.useFakeTimers();
  scene = new Scene();
  ({ backend, ws } = scene);
  await ws.start();
  ws.learnThread(backend.threads.get('thread_1')!);
  await settle();
  backend.calls = [];
  backend.bodies = [];
});
afterEach(() => {
  ws.stop();
  vi.useRealTimers();
});

const settle = () => vi.advanceTimersByTimeAsync(0);
const general = () => ws.channels.map.get('chan_1')!;
const count = (call: string) => backend.calls.filter((c) => c === call).length;
const marks = () =>
  backend.bodies.filter((_, i) => backend.calls[i]!.startsWith('PUT')).map((b) => (b as { seq: number }).seq);
const receive = (seq: number) => ws.onFrame({ type: 'read.updated', thread_id: 'thread_1', seq });
/** Holds back responses until the returned function is called. */
const hold = () => {
  let release = () => {};
  backend.gate = new Promise((done) => (release = done));
  return () => {
    backend.gate = null;
    release();
  };
};

test('one marker per thread is in flight; of the waiting ones, only the newest is sent', async () => {
  const release = hold();
  const all = [10, 11, 12].map((seq) => ws.readTo('thread_1', seq));
  await settle();
  expect(marks()).toEqual([10]);
  release();
  await Promise.all(all);
  expect(marks()).toEqual([10, 12]);
  await ws.readTo('thread_1', 13);
  expect(marks()).toEqual([10, 12, 13]);
});
test('frames of own markers load nothing, even while a newer marker is in flight', async () => {
  const release = hold();
  const all = [10, 12].map((seq) => ws.readTo('thread_1', seq));
  release();
  await Promise.all(all);
  backend.calls = [];
  receive(10);
  receive(12);
  await vi.advanceTimersByTimeAsync(1000);
  expect(backend.calls).toEqual([]);
});
test('markers of another window load at most one snapshot per half second', async () => {
  for (let seq = 10; seq < 30; seq++) receive(seq);
  await vi.advanceTimersByTimeAsync(1000);
  expect([count('GET /v1/snapshot'), count('GET /v1/threads/thread_1')]).toEqual([1, 1]);
});
test('another window marks a message as unread at the position of an older own marker', async () => {
  await ws.readTo('thread_1', 5);
  receive(5);
  await ws.readTo('thread_1', 6);
  receive(6);
  backend.calls = [];
  receive(5);
  await vi.advanceTimersByTimeAsync(1000);
  expect(count('GET /v1/threads/thread_1')).toBe(1);
});
test('a message that arrives while a marker is in flight is counted', async () => {
  const release = hold();
  const marking = ws.readTo('thread_1', 10);
  await settle();
  const m = scene.created();
  backend.threads.set('thread_1', { ...backend.threads.get('thread_1')!, last_seq: m.seq, unread_count: 1 });
  backend.snapshot = {
    ...backend.snapshot,
    seq: 1000,
    channels: [{ ...backend.snapshot.channels[0]!, unread_count: 1 }],
  };
  release();
  await marking;
  await vi.advanceTimersByTimeAsync(1000);
  expect([ws.threads.map.get('thread_1')!.unread_count, general().unread_count]).toEqual([1, 1]);
});
test('a channel marked as read in another window is read here, and no thread moves its marker back', async () => {
  const there = { ...backend.threads.get('thread_1')!, read_seq: 5 };
  backend.threads.set('thread_1', there);
  backend.messages = [message({ seq: 5 }), message({ seq: 6 }), message({ seq: 7 })];
  const t = ws.thread('thread_1');
  await t.load();
  scene.seq = 7;
  const m = scene.created();
  expect(general().unread_count).toBe(1);
  ws.onFrame({ type: 'read.updated', channel_id: 'chan_1', thread_id: null, seq: m.seq });
  expect([general().unread_count, ws.threads.map.get('thread_1')!.unread_count]).toEqual([0, 0]);
  backend.calls = [];
  await t.reading.seen([6]);
  expect(backend.calls).toEqual([]);
});
test('"Mark all read" moves the markers of threads in memory', async () => {
  backend.messages = [message({ seq: 5 }), message({ seq: 6 })];
  backend.threads.set('thread_1', { ...backend.threads.get('thread_1')!, last_seq: 6, unread_count: 2 });
  const t = ws.thread('thread_1');
  await t.load();
  backend.snapshot.channels[0]!.read_seq = 50;
  await ws.reads.markChannel(general());
  expect(t.reading.readSeq).toBe(50);
  expect(ws.threads.map.get('thread_1')!.unread_count).toBe(0);
});
test('an unread message that is deleted counts neither in its thread nor in its channel', async () => {
  const m = scene.created();
  expect([ws.threads.map.get('thread_1')!.unread_count, general().unread_count]).toEqual([1, 1]);
  const deleted = { ...m, content: '', deleted_at: m.created_at };
  scene.event('message.deleted', { message: deleted });
  backend.threads.set('thread_1', { ...backend.threads.get('thread_1')!, last_seq: m.seq });
  backend.snapshot = { ...backend.snapshot, seq: scene.seq };
  await vi.advanceTimersByTimeAsync(3000);
  expect([ws.threads.map.get('thread_1')!.unread_count, general().unread_count]).toEqual([0, 0]);
});
test('a deleted message asks the server for counts only where something is unread', async () => {
  const m = message({ seq: 1 });
  scene.event('message.deleted', { message: { ...m, content: '', deleted_at: m.created_at } });
  await vi.advanceTimersByTimeAsync(3000);
  // The inbox asks at a random time.
  expect(backend.calls.filter((call) => call !== 'GET /v1/inbox/changes')).toEqual([]);
});
test('several threads are marked as read up to the same message, known or not, and the counts are loaded again', async () => {
  expect(await ws.reads.markThreads(['thread_1', 'thread_2'], 40)).toBe(true);
  expect(marks()).toEqual([40, 40]);
  await vi.advanceTimersByTimeAsync(1000);
  expect(count('GET /v1/snapshot')).toBe(1);
  backend.refuse = /thread_2/;
  expect(await ws.reads.markThreads(['thread_1', 'thread_2'], 50)).toBe(false);
});
