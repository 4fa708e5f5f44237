import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ApiError, Unreachable } from '../api/problem';
import { shelf } from '../test/make';
import { Outbox, type OutItem } from './outbox.svelte';

const inThread = { channel_id: 'chan_1', thread_id: 'thread_1', direct: false };
let post: ReturnType<typeof vi.fn<(item: OutItem) => Promise<string>>>;
let newest: string | null;
const make = (kept = shelf()) => new Outbox(kept, 'box', { post, newestThread: () => newest });
const settle = () => vi.advanceTimersByTimeAsync(0);

beforeEach(() => {
  vi.useFakeTimers();
  newest = null;
  post = vi.fn((item: OutItem) => Promise.resolve(item.thread_id ?? 'thread_new'));
});
afterEach(() => void vi.useRealTimers());

test('a message shows at once and goes when it is confirmed', async () => {
  const box = make();
  box.add(inThread, 'hi', true);
  expect(box.items).toMatchObject([{ content: 'hi', status: 'sending' }]);
  await settle();
  expect(box.items).toEqual([]);
});
test('the event may confirm before the answer', async () => {
  const box = make();
  const then = vi.fn();
  const id = box.add(inThread, 'hi', true, then);
  box.confirm(id, 'thread_1');
  await settle();
  expect(box.items).toEqual([]);
  expect(then).toHaveBeenCalledTimes(1);
});
test('refused: failed with the reason; trying again sends the same client id', async () => {
  const box = make();
  post.mockRejectedValueOnce(
    new ApiError(409, { error: { code: 'archived', message: 'The channel is archived.' } }, ''),
  );
  const id = box.add(inThread, 'hi', true);
  await settle();
  expect(box.items).toMatchObject([{ status: 'failed', error: 'The channel is archived.' }]);
  box.retry(id);
  await settle();
  expect(post.mock.calls.map(([i]) => i.client_id)).toEqual([id, id]);
  expect(box.items).toEqual([]);
});
test('no answer in time is failed, no network is waiting', async () => {
  const box = make();
  post.mockRejectedValueOnce(new Unreachable(true));
  box.add(inThread, 'slow', true);
  await settle();
  expect(box.items[0]!.status).toBe('failed');
  post.mockRejectedValueOnce(new Unreachable(false));
  box.add(inThread, 'cut', true);
  await settle();
  expect(box.items[1]!.status).toBe('waiting');
});
test('what waits is flushed in order, and one refusal does not hold the rest', async () => {
  const box = make();
  for (const text of ['one', 'two', 'three']) box.add(inThread, text, false);
  expect(box.items.map((i) => i.status)).toEqual(['waiting', 'waiting', 'waiting']);
  post.mockResolvedValueOnce('thread_1').mockRejectedValueOnce(new ApiError(422, {}, 'no'));
  await box.flush();
  expect(post.mock.calls.map(([i]) => i.content)).toEqual(['one', 'two', 'three']);
  expect(box.items.map((i) => i.content)).toEqual(['two']);
});
test('it survives a reload, as waiting', () => {
  const kept = shelf();
  make(kept).add(inThread, 'hi', false);
  expect(make(kept).items).toMatchObject([{ content: 'hi', status: 'waiting' }]);
});
test('the network is tried again by itself', async () => {
  const box = make();
  post.mockRejectedValueOnce(new Unreachable(false));
  box.add(inThread, 'hi', true);
  await settle();
  await vi.advanceTimersByTimeAsync(3000);
  expect(box.items).toEqual([]);
});
test('the second message of a new direct conversation goes into the thread that the first one started', async () => {
  const box = make();
  const target = { channel_id: 'chan_1', thread_id: null, direct: true };
  post.mockImplementation((i) => {
    newest = i.thread_id ?? 'thread_new';
    return Promise.resolve(newest);
  });
  box.add(target, 'one', true);
  box.add(target, 'two', true);
  await settle();
  expect(post.mock.calls.map(([i]) => i.thread_id)).toEqual([null, 'thread_new']);
});
test('a retry goes where the first try went, though a thread is known by now', async () => {
  const box = make();
  post.mockRejectedValueOnce(new Unreachable(true));
  const id = box.add({ channel_id: 'chan_1', thread_id: null, direct: true }, 'one', true);
  await settle();
  newest = 'thread_new';
  box.retry(id);
  await settle();
  expect(post.mock.calls.map(([i]) => i.thread_id)).toEqual([null, null]);
});
