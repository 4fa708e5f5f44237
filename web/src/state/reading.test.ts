import { beforeEach, expect, test, vi } from 'vitest';
import type { Message } from '../api/types';
import { message } from '../test/make';
import { Reading, type UnreadCounts } from './reading.svelte';

const loaded = { messages: [] as Message[], hasOlder: false };
let readTo: ReturnType<typeof vi.fn<(thread: string, seq: number) => Promise<UnreadCounts | null>>>;
let r: Reading;
/** Bo's messages with these `seq`s; `read` is the position of the marker. */
const open = (seqs: readonly number[], read: number, first: number) => {
  loaded.messages = seqs.map((seq) => message({ seq }));
  loaded.hasOlder = false;
  const unread_count = seqs.filter((s) => s > read).length;
  r.open({ read_seq: read, unread_count, mention_count: 0 }, message({ seq: first }));
};
const marks = () => readTo.mock.calls.map(([, seq]) => seq);

beforeEach(() => {
  readTo = vi.fn((_, seq: number) =>
    Promise.resolve({ unread_count: loaded.messages.filter((m) => m.seq > seq).length, mention_count: 0 }),
  );
  r = new Reading('thread_1', { myId: 'user_me', readTo }, loaded);
});

test('the marker follows the messages that have been on screen, in order', async () => {
  open([1, 2, 3, 4, 5], 1, 2);
  await r.seen([2, 3]);
  expect(marks()).toEqual([3]);
});
test('a message that was not on screen holds the marker until it is', async () => {
  open([1, 2, 3, 4, 5], 1, 2);
  await r.seen([4, 5]);
  expect(marks()).toEqual([]);
  await r.seen([2, 3]);
  expect(marks()).toEqual([5]);
});
test('my own messages, notices, and deleted ones need not be on screen', async () => {
  open([1, 2, 3, 4, 5], 1, 2);
  const author = { type: 'human' as const, id: 'user_me', name: 'Mia', avatar_url: null };
  loaded.messages = [
    message({ seq: 2 }),
    message({ seq: 3, author }),
    message({ seq: 4, kind: 'notice' }),
    message({ seq: 5, deleted_at: '2026-01-05T09:00:00.000Z' }),
  ];
  await r.seen([2]);
  expect(marks()).toEqual([5]);
});
test('messages between the marker and the loaded ones hold the marker', async () => {
  open([1, 2, 3, 4, 5], 1, 2);
  loaded.messages = [message({ seq: 4 }), message({ seq: 5 })];
  loaded.hasOlder = true;
  await r.seen([4, 5]);
  expect(marks()).toEqual([]);
});
test('jumping to the end moves nothing; skipped messages are counted, without those on screen', async () => {
  open(
    Array.from({ length: 120 }, (_, i) => i + 1),
    0,
    1,
  );
  await r.seen(Array.from({ length: 30 }, (_, i) => i + 1));
  r.skip();
  r.setVisible(new Set(Array.from({ length: 19 }, (_, i) => i + 102)));
  expect([r.skipping, r.unseen, marks()]).toEqual([true, 71, [30]]);
  await r.seen(Array.from({ length: 19 }, (_, i) => i + 102));
  expect([r.unseen, marks()]).toEqual([71, [30]]);
  expect(r.next?.seq).toBe(31);
});
test('after marking as read, nothing is behind', async () => {
  open([1, 2, 3, 4, 5], 0, 1);
  r.setVisible(new Set([5]));
  expect([r.behind, r.unseen]).toEqual([true, 4]);
  await r.markAll(5);
  expect([r.behind, r.unseen, marks()]).toEqual([false, 0, [5]]);
});
test('the divider stays in place, and counts new messages', async () => {
  open([1, 2, 3], 1, 2);
  await r.seen([2]);
  r.arrived(message({ seq: 4 }));
  expect(r.divider?.seq).toBe(2);
  expect(r.since).toEqual({ unread_count: 3, mention_count: 0 });
});
test('once everything is read, new messages at the end do not bring the bar back', async () => {
  open([1, 2, 3], 1, 2);
  await r.seen([2, 3]);
  loaded.messages = [...loaded.messages, message({ seq: 4 })];
  r.arrived(loaded.messages.at(-1)!);
  r.setVisible(new Set([3]));
  expect(r.behind).toBe(false);
});
test('a marker that did not reach the server is sent again', async () => {
  open([1, 2, 3], 1, 2);
  readTo.mockResolvedValueOnce(null);
  await r.seen([2]);
  await r.seen([2]);
  expect(marks()).toEqual([2, 2]);
});
test('messages marked as unread stay so until the thread is left', async () => {
  open([1, 2, 3], 3, 3);
  await r.markUnreadFrom(loaded.messages[1]!);
  await r.seen([2, 3]);
  expect(marks()).toEqual([1]);
  r.close();
  r.reopen();
  await r.seen([2, 3]);
  expect(marks()).toEqual([1, 3]);
});
test('messages read in another window are read here', () => {
  open([1, 2, 3], 0, 1);
  r.readElsewhere(2);
  expect([r.unseen, r.next?.seq]).toEqual([1, 3]);
});
test('a thread marked unread in another window becomes unread here when it is opened next', async () => {
  open([1, 2, 3], 0, 1);
  await r.seen([1, 2, 3]);
  r.readElsewhere(1);
  await r.seen([1, 2, 3]);
  expect(marks()).toEqual([3]); // still open: unread there stays unread
  r.close();
  r.reopen();
  expect(r.divider?.seq).toBe(2);
  await r.seen([2, 3]);
  expect(marks()).toEqual([3, 3]);
  r.close();
  r.readElsewhere(2);
  r.reopen();
  expect(r.divider?.seq).toBe(3);
});
test('an older marker that fails late does not move the read position back behind a newer one', async () => {
  open([1, 2, 3], 0, 1);
  let fail = (_: null) => {};
  readTo.mockImplementationOnce(() => new Promise((done) => (fail = done)));
  const first = r.seen([1]);
  await r.seen([2]);
  fail(null);
  await first;
  expect(r.readSeq).toBe(2);
  readTo.mockResolvedValueOnce(null);
  await r.seen([3]);
  expect(r.readSeq).toBe(2);
});
test('going to the end skips nothing when all messages were on screen', async () => {
  open([1, 2, 3], 0, 1);
  r.setVisible(new Set([1, 2, 3]));
  r.skip();
  expect(r.skipping).toBe(false);
});
