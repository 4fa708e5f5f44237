import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Sent } from '../api/files';
import { ApiError, Unreachable } from '../api/problem';
import type { Attachment } from '../api/types';
import { Drafts } from '../state/drafts.svelte';
import { Outbox, type OutboxWork } from '../state/outbox.svelte';
import { Browser, store } from '../test/make';
import { Uploads } from './uploads.svelte';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const attachment = (x: Partial<Attachment> = {}): Attachment => ({
  id: 'file_1',
  name: 'plan.pdf',
  content_type: 'application/pdf',
  size_bytes: 3,
  width: null,
  height: null,
  message_id: null,
  alt: null,
  url: '/v1/files/file_1',
  ...x,
});
const file = (name: string, bytes = 3) => {
  const f = new File(['abc'], name);
  Object.defineProperty(f, 'size', { value: bytes });
  return f;
};
const target = { channel_id: 'chan_1', thread_id: 'thread_1', direct: false };

function scene(kept = store()) {
  const drafts = new Drafts(kept, 'u.w');
  const posted: { content: string; ids: string[] }[] = [];
  const under: {
    sent: Sent;
    done: (a?: Partial<Attachment>) => Promise<void>;
    fail: (e: unknown) => Promise<void>;
  }[] = [];
  const notifications: string[] = [];
  const removed: string[] = [];
  const known = new Map<string, Attachment>();
  const uploads: Uploads = new Uploads({
    drafts,
    get outbox() {
      return outbox;
    },
    channels: { map: new Map([['chan_1', { id: 'chan_1', kind: 'public' }]]) },
    files: {
      metadata: (id) => {
        const found = known.get(id);
        return found ? Promise.resolve(found) : Promise.reject(new ApiError(404, null, 'gone'));
      },
      remove: (id) => Promise.resolve(void removed.push(id)),
    },
    fileBytesMax: 30 * 1024 * 1024,
    upload: (sent) =>
      new Promise((done, fail) => {
        under.push({
          sent,
          done: async (a = {}) => {
            done(attachment({ id: `file_${sent.name}`, name: sent.name, ...a }));
            await vi.advanceTimersByTimeAsync(0);
          },
          fail: async (e) => {
            fail(e);
            await vi.advanceTimersByTimeAsync(0);
          },
        });
      }),
    notify: (text) => void notifications.push(text),
  });
  const work: OutboxWork = {
    post: (item) => {
      posted.push({ content: item.content, ids: item.attachments?.map((a) => a.id) ?? [] });
      return Promise.resolve('thread_1');
    },
    newestThread: () => Promise.resolve(null),
    uploadAgain: (id) => uploads.again(id),
    gone: (id) => uploads.forget(id),
  };
  const outbox: Outbox = new Outbox(kept, 'u.w', work, new Browser().open().locks);
  const send = (content: string) => {
    const held = uploads.take('t:thread_1');
    const id = outbox.add(
      target,
      content,
      true,
      undefined,
      held.map((h) => h.shown),
    );
    uploads.sent(id, held);
    return id;
  };
  return { drafts, outbox, uploads, under, notifications, removed, known, posted, send, kept };
}
const states = (u: Uploads) => u.in('t:thread_1').map((x) => x.status);

test('three at a time; the next one starts when one is done', async () => {
  const { uploads, under } = scene();
  uploads.add(
    't:thread_1',
    ['a', 'b', 'c', 'd'].map((n) => file(n)),
  );
  expect(under.length).toBe(3);
  expect(states(uploads)).toEqual(['sending', 'sending', 'sending', 'waiting']);
  await under[1]!.done();
  expect(states(uploads)).toEqual(['sending', 'done', 'sending', 'sending']);
});
test('files that are too large or too many are rejected with a reason; the others continue', () => {
  const { uploads, notifications } = scene();
  uploads.add('t:thread_1', [file('big.iso', 35 * 1024 * 1024), file('nil', 0), file('ok')]);
  expect(uploads.in('t:thread_1').map((u) => u.name)).toEqual(['nil', 'ok']);
  expect(notifications[0]).toBe('Not attached. big.iso is 35 MB; the limit is 30 MB.');
  uploads.add(
    't:thread_1',
    Array.from({ length: 10 }, (_, i) => file(`f${i}`)),
  );
  expect(uploads.in('t:thread_1').length).toBe(10);
  expect(notifications[1]).toBe('Not attached. The limit is 10 files per message: f8 and f9 left out.');
});
test('a message waits for its files, and is sent after the last one', async () => {
  const { uploads, outbox, under, posted, send } = scene();
  uploads.add('t:thread_1', [file('a'), file('b')]);
  await under[0]!.done();
  send('Here');
  expect(uploads.in('t:thread_1')).toEqual([]);
  expect(outbox.items[0]!.status).toBe('uploading');
  expect(outbox.items[0]!.attachments!.map((a) => a.id)).toEqual(['file_a', '']);
  await under[1]!.done();
  expect(posted).toEqual([{ content: 'Here', ids: ['file_a', 'file_b'] }]);
  expect(outbox.items).toEqual([]);
});
test('a message without files is not delayed by one that waits for its files', async () => {
  const { uploads, outbox, posted, send } = scene();
  uploads.add('t:thread_1', [file('a')]);
  send('Later');
  outbox.add(target, 'Now', true);
  await vi.advanceTimersByTimeAsync(0);
  expect(posted.map((p) => p.content)).toEqual(['Now']);
});
test('a failed upload fails its message, which can be retried with the same ID', async () => {
  const { uploads, outbox, under, posted, send } = scene();
  uploads.add('t:thread_1', [file('a')]);
  const id = send('Here');
  await under[0]!.fail(new ApiError(422, { error: { message: 'the file is broken' } }, ''));
  expect(outbox.items[0]).toMatchObject({
    status: 'failed',
    error: 'Couldn’t upload a. The file is broken',
  });
  outbox.retry(id);
  expect(outbox.items[0]!.status).toBe('uploading');
  expect(under[1]!.sent.clientId).toBe(under[0]!.sent.clientId);
  await under[1]!.done();
  expect(posted.length).toBe(1);
});
test('without a network, an upload waits and continues automatically', async () => {
  const { uploads, under } = scene();
  uploads.add('t:thread_1', [file('a')]);
  await under[0]!.fail(new Unreachable(false));
  expect(states(uploads)).toEqual(['waiting']);
  await vi.advanceTimersByTimeAsync(3000);
  expect(states(uploads)).toEqual(['sending']);
  await under[1]!.fail(new Unreachable(false));
  uploads.online();
  expect(under.length).toBe(3);
});
test('after canceling one, the others continue, and an uploaded file is deleted', async () => {
  const { uploads, under, removed } = scene();
  uploads.add(
    't:thread_1',
    ['a', 'b', 'c', 'd'].map((n) => file(n)),
  );
  uploads.remove('t:thread_1', uploads.in('t:thread_1')[0]!);
  expect(under[0]!.sent.signal.aborted).toBe(true);
  expect(under.map((u) => u.sent.name)).toEqual(['a', 'b', 'c', 'd']);
  await under[1]!.done();
  uploads.remove('t:thread_1', uploads.in('t:thread_1')[0]!);
  expect(removed).toEqual(['file_b']);
});
test('uploaded files stay with the draft over a reload; files deleted on the server are removed with a notice', async () => {
  const first = scene();
  first.uploads.add('t:thread_1', [file('a'), file('b'), file('c')]);
  await first.under[0]!.done();
  await first.under[1]!.done();
  first.drafts.flush();
  const second = scene(first.kept);
  expect(second.drafts.files('t:thread_1')).toBe(true);
  second.known.set('file_b', attachment({ id: 'file_b', name: 'b' }));
  second.uploads.restore('t:thread_1');
  expect(second.uploads.in('t:thread_1').map((u) => u.name)).toEqual(['a', 'b']);
  await vi.advanceTimersByTimeAsync(0);
  expect(second.uploads.in('t:thread_1').map((u) => u.name)).toEqual(['b']);
  expect(second.notifications).toEqual(['a is no longer available for this draft. Attach it again.']);
  expect(second.uploads.take('t:thread_1').length).toBe(1);
  expect(second.drafts.files('t:thread_1')).toBe(false);
});
test('a waiting message can be moved back to the composer, before newer text', async () => {
  const { uploads, outbox, drafts, under, send } = scene();
  uploads.add('t:thread_1', [file('a')]);
  send('Here');
  drafts.set('t:thread_1', 'and more');
  uploads.takeBack(outbox.items[0]!);
  expect(outbox.items).toEqual([]);
  expect(drafts.get('t:thread_1')).toBe('Here\nand more');
  expect(states(uploads)).toEqual(['sending']);
  await under[0]!.done();
  expect(drafts.files('t:thread_1')).toBe(true);
});
test('deleting a message cancels its uploads', () => {
  const { uploads, outbox, under, send } = scene();
  uploads.add('t:thread_1', [file('a')]);
  outbox.remove(send('Here'));
  expect(under[0]!.sent.signal.aborted).toBe(true);
});
test('a message whose page was closed lists its missing files and keeps its text', async () => {
  const first = scene();
  first.uploads.add('t:thread_1', [file('a'), file('b')]);
  await first.under[0]!.done();
  first.send('Here');
  const second = scene(first.kept);
  expect(second.outbox.items[0]).toMatchObject({
    content: 'Here',
    status: 'failed',
    error:
      'b was not uploaded because its window was closed. Select Try again to send the message without it.',
  });
  second.outbox.retry(second.outbox.items[0]!.client_id);
  await vi.advanceTimersByTimeAsync(0);
  expect(second.posted).toEqual([{ content: 'Here', ids: ['file_a'] }]);
});
