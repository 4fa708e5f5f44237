import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ApiError, Unreachable } from '../api/problem';
import { Browser, store } from '../test/make';
import type { OutItem } from './outbox-item';
import { fullNotice } from './outbox-notice';
import { Outbox, WAITING_MAX, type OutboxWork } from './outbox.svelte';

const inThread = { channel_id: 'chan_1', thread_id: 'thread_1', direct: false };
let post: ReturnType<typeof vi.fn<(item: OutItem) => Promise<string>>>;
let newest: string | null;
const work = () => ({ post, newestThread: () => Promise.resolve(newest) });
const make = (kept = store()) => new Outbox(kept, 'u.w', work(), new Browser().open().locks);
/** A window of a browser, with the workspace open. */
const open = (browser: Browser, more: Partial<OutboxWork> = {}, shared = true) => {
  const window = browser.open({ shared });
  const box = new Outbox(window.store, 'u.w', { ...work(), ...more }, window.locks);
  box.flush();
  return { box, close: () => (box.dispose(), window.close()) };
};
const in_ = (thread_id: string) => ({ ...inThread, thread_id });
const settle = () => vi.advanceTimersByTimeAsync(0);

beforeEach(() => {
  vi.useFakeTimers();
  newest = null;
  post = vi.fn((item: OutItem) => Promise.resolve(item.thread_id ?? 'thread_new'));
});
afterEach(() => void vi.useRealTimers());

test('a message appears immediately and leaves when it is confirmed', async () => {
  const box = make();
  box.add(inThread, 'hi', true);
  expect(box.items).toMatchObject([{ content: 'hi', status: 'sending' }]);
  await settle();
  expect(box.items).toEqual([]);
});
test('the event may confirm before the response', async () => {
  const box = make();
  const then = vi.fn();
  const id = box.add(inThread, 'hi', true, then);
  box.confirm(id, 'thread_1');
  await settle();
  expect(box.items).toEqual([]);
  expect(then).toHaveBeenCalledTimes(1);
});
test('a rejected message fails with the reason; a retry sends the same client ID', async () => {
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
test('a timeout fails the message, a missing network makes it wait', async () => {
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
test('waiting messages are sent in order, and one rejection does not block the rest', async () => {
  const box = make();
  for (const text of ['one', 'two', 'three']) box.add(inThread, text, false);
  expect(box.items.map((i) => i.status)).toEqual(['waiting', 'waiting', 'waiting']);
  post.mockResolvedValueOnce('thread_1').mockRejectedValueOnce(new ApiError(422, {}, 'no'));
  box.flush();
  await settle();
  expect(post.mock.calls.map(([i]) => i.content)).toEqual(['one', 'two', 'three']);
  expect(box.items.map((i) => i.content)).toEqual(['two']);
});
test('the outbox survives a reload, with waiting messages', () => {
  const kept = store();
  make(kept).add(inThread, 'hi', false);
  expect(make(kept).items).toMatchObject([{ content: 'hi', status: 'waiting' }]);
});
test('a network failure is retried automatically', async () => {
  const box = make();
  post.mockRejectedValueOnce(new Unreachable(false));
  box.add(inThread, 'hi', true);
  await settle();
  await vi.advanceTimersByTimeAsync(3000);
  expect(box.items).toEqual([]);
});
test('the second message of a new direct conversation goes to the thread that the first one started', async () => {
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
test('a retry goes to the first attempt’s destination, although a thread is known by then', async () => {
  const box = make();
  post.mockRejectedValueOnce(new Unreachable(true));
  const id = box.add({ channel_id: 'chan_1', thread_id: null, direct: true }, 'one', true);
  await settle();
  newest = 'thread_new';
  box.retry(id);
  await settle();
  expect(post.mock.calls.map(([i]) => i.thread_id)).toEqual([null, null]);
});

// --- one entry per message, shared by windows ---

test('each message is one entry, keyed by person, workspace, and client ID', () => {
  const kept = store();
  const id = make(kept).add(inThread, 'hi', false);
  expect([...kept.kept.keys()]).toEqual([`openvibe.out.u.w.${id}`]);
});
test('two windows closed offline lose nothing', () => {
  const browser = new Browser();
  const [a, b] = [open(browser), open(browser)];
  a.box.add(inThread, 'from a', false);
  b.box.add(inThread, 'from b', false);
  a.close();
  b.close();
  expect(open(browser).box.items.map((i) => i.content)).toEqual(['from a', 'from b']);
});
test('one window sends for both, and both see the confirmation', async () => {
  const browser = new Browser();
  const [a, b] = [open(browser), open(browser)];
  const then = vi.fn();
  const id = b.box.add(inThread, 'from b', true, then);
  await settle();
  expect(post.mock.calls.map(([i]) => i.client_id)).toEqual([id]);
  expect(a.box.items).toEqual([]);
  expect(b.box.items.map((i) => i.client_id)).toEqual([id]); // on screen until its event arrives
  b.box.confirm(id, 'thread_1');
  expect(b.box.items).toEqual([]);
  expect(then).toHaveBeenCalledWith('thread_1');
});
test('a message whose event never arrives leaves the other window after a while', async () => {
  const browser = new Browser();
  open(browser);
  const b = open(browser);
  b.box.add(inThread, 'from b', true);
  await vi.advanceTimersByTimeAsync(5000);
  expect(b.box.items).toEqual([]);
});
test('when the sending window is closed, another one continues', async () => {
  const browser = new Browser();
  const [a, b] = [open(browser), open(browser)];
  post.mockRejectedValueOnce(new Unreachable(false));
  b.box.add(inThread, 'hi', true);
  await settle();
  expect(b.box.items[0]!.status).toBe('waiting');
  a.close();
  await settle();
  expect(post).toHaveBeenCalledTimes(2);
  expect(b.box.items).toEqual([]);
});
test('a window that holds the lock and does nothing loses it after 10 s', async () => {
  const browser = new Browser();
  const frozen = browser.open();
  frozen.locks.hold('openvibe.outbox.u.w', () => undefined);
  const { box } = open(browser);
  box.add(inThread, 'hi', true);
  await vi.advanceTimersByTimeAsync(9000);
  expect(post).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(2000);
  expect(box.items).toEqual([]);
});
test('a visible window takes over messages that a suspended window tried once', async () => {
  const browser = new Browser();
  const suspended = open(browser);
  post.mockRejectedValueOnce(new Unreachable(false));
  suspended.box.add(inThread, 'hi', true);
  await settle();
  const tried = { ...suspended.box.items[0]! };
  expect(tried).toMatchObject({ status: 'waiting', tried: true });
  suspended.box.dispose(); // its timers do not run, but its lock is held
  browser.open().locks.hold('openvibe.outbox.u.w', () => undefined);
  let visible = false;
  const { box } = open(browser, { visible: () => visible });
  await vi.advanceTimersByTimeAsync(30_000);
  expect(post).toHaveBeenCalledTimes(1);
  visible = true;
  box.flush();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(post.mock.calls.map(([i]) => i.client_id)).toEqual([tried.client_id, tried.client_id]);
  expect(box.items).toEqual([]);
});
test('a window that keeps sending keeps its messages', async () => {
  const browser = new Browser();
  const sender = open(browser);
  const theirs = vi.fn(() => Promise.resolve('thread_1'));
  open(browser, { post: theirs });
  post.mockRejectedValue(new Unreachable(false));
  sender.box.add(inThread, 'hi', true);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(theirs).not.toHaveBeenCalled();
  sender.close();
  await settle();
  expect(theirs).toHaveBeenCalledTimes(1);
});
test('a failed message deleted in one window disappears from the other', async () => {
  const browser = new Browser();
  const [a, b] = [open(browser), open(browser)];
  post.mockRejectedValueOnce(new ApiError(422, {}, 'no'));
  const id = b.box.add(inThread, 'hi', true);
  await settle();
  expect([a, b].map(({ box }) => box.items[0]!.status)).toEqual(['failed', 'failed']);
  b.box.remove(id);
  await settle();
  expect(a.box.items).toEqual([]);
});
test('a message whose files are uploaded in another window waits for them, and fails when that window is closed', async () => {
  const browser = new Browser();
  const [a, b] = [open(browser), open(browser)];
  const file = { id: '', name: 'plan.pdf', content_type: 'application/pdf', size_bytes: 3 };
  const pending = { ...file, width: null, height: null, message_id: null, alt: null, url: '' };
  a.box.add(inThread, 'Here', true, undefined, [pending]);
  await settle();
  expect(b.box.items[0]!.status).toBe('uploading');
  a.close();
  await settle();
  expect(b.box.items[0]).toMatchObject({ content: 'Here', status: 'failed' });
});
test('without locks, a window that opens leaves another window’s upload alone until that window is closed', async () => {
  const browser = new Browser();
  const a = open(browser, {}, false);
  const file = { id: '', name: 'plan.pdf', content_type: 'application/pdf', size_bytes: 3 };
  const pending = { ...file, width: null, height: null, message_id: null, alt: null, url: '' };
  a.box.add(inThread, 'Here', true, undefined, [pending]);
  const b = open(browser, {}, false);
  await vi.advanceTimersByTimeAsync(300_000);
  expect([a, b].map(({ box }) => box.items[0]!.status)).toEqual(['uploading', 'uploading']);
  a.close();
  await vi.advanceTimersByTimeAsync(80_000);
  expect(b.box.items[0]).toMatchObject({
    status: 'failed',
    error:
      'plan.pdf was not uploaded because its window was closed. Select Try again to send the message without it.',
  });
});
test('the outbox of earlier versions is migrated once, in order', () => {
  const kept = store();
  const old = ['one', 'two'].map((content, i) => ({
    ...inThread,
    client_id: `id${i}`,
    content,
    created_at: '2026-01-05T09:00:00.000Z',
    status: 'waiting',
    error: null,
    tried: false,
  }));
  kept.set('openvibe.outbox.u.w', JSON.stringify(old));
  expect(make(kept).items.map((i) => i.content)).toEqual(['one', 'two']);
  expect(kept.get('openvibe.outbox.u.w')).toBeNull();
  expect(make(kept).items.length).toBe(2);
});

// --- messages leave only by confirmation or Delete ---

test('200 messages wait and all are sent; at 200 the outbox is full', async () => {
  const kept = store();
  const box = make(kept);
  for (let i = 0; i < WAITING_MAX; i++) box.add(inThread, `${i}`, false);
  expect([box.items.length, box.full]).toEqual([200, true]);
  const reopened = make(kept);
  reopened.flush();
  await settle();
  expect(post.mock.calls.map(([i]) => i.content)).toEqual(Array.from({ length: 200 }, (_, i) => `${i}`));
  expect(reopened.full).toBe(false);
});
test('the notice of a full outbox depends on whether messages wait for the network or failed', async () => {
  const box = make();
  post.mockRejectedValue(new ApiError(404, {}, 'gone'));
  for (let i = 0; i < WAITING_MAX; i++) box.add(inThread, `${i}`, false);
  const waiting = '200 messages are waiting. You can send more when you’re back online.';
  const failed = '200 messages are not sent. Try again or delete some.';
  expect(fullNotice(box.items, 'offline')).toBe(waiting);
  box.flush();
  await settle();
  expect(box.items.every((i) => i.status === 'failed')).toBe(true);
  expect([fullNotice(box.items, 'online'), fullNotice(box.items, 'offline')]).toEqual([failed, failed]);
});
test('a busy server is retried after its delay, and nothing fails', async () => {
  const box = make();
  post.mockRejectedValueOnce(new ApiError(429, {}, 'slow down', 7));
  box.add(inThread, 'hi', true);
  await settle();
  expect(box.items[0]!.status).toBe('waiting');
  await vi.advanceTimersByTimeAsync(6900);
  expect(post).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(200);
  expect(box.items).toEqual([]);
});

// --- one queue per conversation ---

test('a slow conversation does not delay others; each keeps its order; 4 requests at once', async () => {
  const box = make();
  const answers = new Map<string, () => void>();
  post.mockImplementation((i) => new Promise((done) => answers.set(i.content, () => done('x'))));
  for (const thread of ['t1', 't2', 't3', 't4', 't5'])
    for (const n of [1, 2]) box.add(in_(thread), `${thread}-${n}`, true);
  await settle();
  const sent = () => post.mock.calls.map(([i]) => i.content);
  expect(sent()).toEqual(['t1-1', 't2-1', 't3-1', 't4-1']);
  answers.get('t2-1')!();
  await settle();
  expect(sent().slice(4)).toEqual(['t2-2']);
  answers.get('t2-2')!();
  answers.get('t3-1')!();
  await settle();
  expect(sent().slice(5).sort()).toEqual(['t3-2', 't5-1']);
});
test('a dive, its thread, and new threads of a channel are separate queues', async () => {
  const box = make();
  post.mockImplementation(() => new Promise(() => undefined));
  box.add(inThread, 'thread', true);
  box.add({ ...inThread, fork_id: 'fork_1' }, 'dive', true);
  box.add({ ...inThread, thread_id: null }, 'first start', true);
  box.add({ ...inThread, thread_id: null }, 'second start', true);
  await settle();
  expect(post.mock.calls.map(([i]) => i.content)).toEqual(['thread', 'dive', 'first start']);
});
test('a message written into a new dive waits for the one in flight when the dive gets its ID', async () => {
  const box = make();
  let answer = () => {};
  post.mockImplementationOnce((i) => new Promise((done) => (answer = () => done(i.fork_id!))));
  box.add({ ...inThread, fork_id: 'new_1' }, 'one', true);
  await settle();
  box.add({ ...inThread, fork_id: 'new_1' }, 'two', true);
  box.move('new_1', 'fork_1');
  box.flush();
  await settle();
  expect(post.mock.calls.map(([i]) => i.content)).toEqual(['one']);
  answer();
  await settle();
  expect(post.mock.calls.map(([i]) => [i.content, i.fork_id])).toEqual([
    ['one', 'new_1'],
    ['two', 'fork_1'],
  ]);
  box.add({ ...inThread, fork_id: 'fork_1' }, 'three', true);
  await settle();
  expect(box.items).toEqual([]);
});

// --- the session ---

test('when the session ends, messages wait for the next sign-in', async () => {
  const kept = store();
  const signedOut = vi.fn();
  const box = new Outbox(kept, 'u.w', { ...work(), signedOut }, new Browser().open().locks);
  post.mockRejectedValueOnce(new ApiError(401, {}, 'Sign in.'));
  for (const text of ['one', 'two', 'three']) box.add(inThread, text, true);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(box.items.map((i) => i.status)).toEqual(['waiting', 'waiting', 'waiting']);
  expect([post.mock.calls.length, signedOut.mock.calls.length]).toEqual([1, 1]);
  const next = make(kept);
  next.flush();
  await settle();
  expect(post.mock.calls.slice(1).map(([i]) => i.content)).toEqual(['one', 'two', 'three']);
});
test('nothing is sent while another user is signed in', async () => {
  const browser = new Browser();
  let mine = false;
  const { box } = open(browser, { maySend: () => mine });
  box.add(inThread, 'hi', true);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(post).not.toHaveBeenCalled();
  expect(box.items[0]!.status).toBe('waiting');
  mine = true;
  box.flush();
  await settle();
  expect(box.items).toEqual([]);
});
test('a message that another window was sending when it was closed waits', async () => {
  const browser = new Browser();
  const first = browser.open();
  const sending = new Outbox(first.store, 'u.w', work(), first.locks);
  post.mockReturnValue(new Promise(() => undefined));
  sending.flush();
  const second = browser.open();
  const elected = vi.fn();
  const box = new Outbox(second.store, 'u.w', { ...work(), elected }, second.locks); // without a connection
  sending.add(inThread, 'hi', true);
  await settle();
  expect([box.items[0]!.status, elected.mock.calls.length]).toEqual(['sending', 0]);
  sending.dispose();
  await settle();
  expect([box.items[0]!.status, elected.mock.calls.length]).toEqual(['waiting', 1]);
});
