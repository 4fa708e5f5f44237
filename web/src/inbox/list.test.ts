// @vitest-environment happy-dom
import { flushSync } from 'svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Scene } from '../test/backend';
import { Inbox, inboxItem } from '../test/inbox';
import { message } from '../test/make';
import { inboxOf, type InboxList } from './list.svelte';

let scene: Scene;
let server: Inbox;
let list: InboxList;
const shown = () => {
  flushSync();
  return list.stacks.map((s) => s.items.map((i) => i.id).join('+'));
};
const start = async (...items: Parameters<typeof inboxItem>[0][]) => {
  server = new Inbox(...items.map((x) => inboxItem(x)));
  scene = new Scene();
  scene.backend.inbox = server;
  scene.backend.snapshot = { ...scene.backend.snapshot, seq: 100, inbox: { open: server.open, seq: 100 } };
  await scene.ws.start();
  list = inboxOf(scene.ws);
  await list.load();
};
const puts = () => scene.backend.calls.filter((call) => call.startsWith('PUT /v1/inbox')).length;

beforeEach(async () => {
  await start(
    { seq: 1 },
    { seq: 2, thread_id: 'thread_9' },
    { seq: 3, thread_id: 'thread_9', reason: 'saved', state: 'open' },
    { seq: 4 },
    { seq: 5, reason: 'approval', thread_id: 'thread_9' },
    { seq: 6, state: 'later', until: '2099-01-01T00:00:00.000Z' },
  );
});
afterEach(() => scene.ws.stop());

test('adjacent items of a conversation are one stack, newest first', () => {
  expect(shown()).toEqual(['inbox_4', 'inbox_3+inbox_2', 'inbox_1']);
  expect(scene.ws.inbox.open).toBe(5);
});
test('done acts on the whole stack at once, and selects the next one', async () => {
  list.move(1);
  list.move(1);
  const done = list.set([list.current!], 'done');
  expect(shown()).toEqual(['inbox_4', 'inbox_1']);
  expect(list.current?.key).toBe('inbox_1');
  expect(scene.ws.inbox.open).toBe(3);
  await done;
  expect(scene.backend.bodies).toContainEqual({ ids: ['inbox_3', 'inbox_2'], state: 'done', until: null });
  await list.set([list.current!], 'done');
  expect(list.current?.key).toBe('inbox_4');
  await list.set([list.current!], 'done');
  expect([list.current, list.move(1), list.move(-1)]).toEqual([null, false, false]);
});
test('undo restores the former states in turn, and selects the stack', async () => {
  const [first, second] = list.stacks;
  void list.set([first!], 'later', '2099-01-01T00:00:00.000Z');
  void list.set([second!], 'done');
  expect(await list.undo()).toBe(true);
  expect(shown()).toEqual(['inbox_3+inbox_2', 'inbox_1']);
  expect(list.current?.key).toBe('inbox_2');
  await list.undo();
  expect(shown()).toEqual(['inbox_4', 'inbox_3+inbox_2', 'inbox_1']);
  expect(await list.undo()).toBe(false);
  expect([...server.items.values()].filter((i) => i.state === 'open')).toHaveLength(5);
});
test('undo goes back twenty steps', async () => {
  await start(...Array.from({ length: 22 }, (_, n) => ({ seq: n + 1 })));
  for (let n = 0; n < 22; n++) void list.set([list.stacks[0]!], 'done');
  let steps = 0;
  while (await list.undo()) steps++;
  expect(steps).toBe(20);
  expect(shown()).toHaveLength(20);
});
test('a refused change is taken back, and cannot be undone', async () => {
  scene.backend.refuse = /inbox.state/;
  await expect(list.set([list.stacks[0]!], 'done')).rejects.toThrow();
  expect(shown()).toEqual(['inbox_4', 'inbox_3+inbox_2', 'inbox_1']);
  expect(await list.undo()).toBe(false);
});
test('a selected row that closes stays until the selection moves', () => {
  list.move(1);
  scene.event('inbox.updated', { items: [{ id: 'inbox_4', state: 'done', until: null }] });
  expect(shown()).toEqual(['inbox_4', 'inbox_3+inbox_2', 'inbox_1']);
  expect(list.current?.items[0].state).toBe('done');
  list.move(1);
  expect(shown()).toEqual(['inbox_3+inbox_2', 'inbox_1']);
});
test('what the server sent before the change does not bring the item back', async () => {
  let open = () => undefined as void;
  scene.backend.gate = new Promise((done) => (open = done));
  const sent = list.set([list.stacks[0]!], 'done');
  list.changed({ data: [inboxItem({ seq: 4 })], open: 5, seq: 100, resync: false });
  expect(shown()).not.toContain('inbox_4');
  open();
  scene.backend.gate = null;
  await sent;
  list.changed({ data: [inboxItem({ seq: 4 })], open: 5, seq: 100, resync: false });
  expect(shown()).not.toContain('inbox_4');
});
test('reading closes items that close when read, and only marks the others', async () => {
  await start(
    { seq: 1, thread_id: 'thread_1', reason: 'direct' },
    { seq: 2, thread_id: 'thread_1', reason: 'mention' },
    { seq: 3, thread_id: 'thread_1', reason: 'reply' },
    { seq: 4, thread_id: 'thread_1', fork_id: 'fork_1', reason: 'reply' },
    { seq: 5, thread_id: 'thread_2', reason: 'group' },
  );
  scene.ws.onFrame({ type: 'read.updated', thread_id: 'thread_1', seq: 2 } as never);
  expect(shown()).toEqual(['inbox_5', 'inbox_4', 'inbox_3+inbox_2']);
  expect(list.items.get('inbox_2')?.unread).toBe(false);
  scene.ws.onFrame({ type: 'read.updated', channel_id: 'chan_1', seq: 9 } as never);
  expect(shown()).toEqual(['inbox_4', 'inbox_2']);
});
test('a deleted message takes its items along', async () => {
  scene.event('message.deleted', {
    message: message({ id: 'msg_4', deleted_at: '2026-01-05T09:00:00.000Z' }),
  });
  await vi.waitFor(() => expect(shown()).toEqual(['inbox_3+inbox_2', 'inbox_1']));
});
test('a deleted chat has no rows', () => {
  scene.event('thread.deleted', { thread_id: 'thread_9', channel_id: 'chan_1' });
  expect(shown()).toEqual(['inbox_4', 'inbox_1']);
});
test('an edited message has its new text, and loses its row with its mention', async () => {
  const edited = message({ id: 'msg_4', edited_at: '2026-01-05T09:00:00.000Z' });
  server.items.set('inbox_4', { ...server.items.get('inbox_4')!, text: 'New text' });
  scene.event('message.updated', { message: edited });
  await vi.waitFor(() => expect(list.items.get('inbox_4')?.text).toBe('New text'));
  server.items.delete('inbox_4');
  scene.event('message.updated', { message: edited });
  await vi.waitFor(() => expect(shown()).toEqual(['inbox_3+inbox_2', 'inbox_1']));
});
test('a reply that is not open is not shown as done, unless it was open here', () => {
  const reply = { reason: 'reply', state: 'done' } as const;
  list.changed({ data: [inboxItem({ seq: 101, ...reply })], open: 5, seq: 101, resync: false });
  expect(list.items.has('inbox_101')).toBe(false);
});
test('a resync drops what is no longer open', async () => {
  server.items.delete('inbox_4');
  list.changed({ data: [], open: 4, seq: 100, resync: true });
  expect(list.view.status).toBe('ready'); // rows stay on screen until the others have come
  await vi.waitFor(() => expect(shown()).toEqual(['inbox_3+inbox_2', 'inbox_1']));
});
test('tabs and reasons are loaded once, page by page', async () => {
  list.show('later', null);
  await vi.waitFor(() => expect(shown()).toEqual(['inbox_6']));
  list.show('open', 'saved');
  await vi.waitFor(() => expect(list.view.status).toBe('ready'));
  expect(shown()).toEqual(['inbox_3']);
  server.limit = 2;
  list.show('open', 'mention');
  await vi.waitFor(() => expect(list.view.status).toBe('ready'));
  expect(list.view.cursor).toBe('2');
  await list.loadMore();
  expect(list.view.cursor).toBeNull();
});
test('items with an act of the user come first, among all open items', async () => {
  await start({ seq: 1, reason: 'draft', subject_id: 'fork_1' }, { seq: 2 }, { seq: 3, reason: 'resolve' });
  expect(shown()).toEqual(['inbox_3', 'inbox_1', 'inbox_2']);
  expect(list.upTo(list.stacks[1]!)).toHaveLength(2);
});
test('saving adds an item under Later, and saving it again removes it', async () => {
  expect(await list.toggleSaved(list.items.get('inbox_4')!)).toBe(true);
  const saved = list.items.get('inbox_saved_msg_4')!;
  expect(saved.state).toBe('later');
  expect(await list.toggleSaved(saved)).toBe(false);
  expect(list.items.has(saved.id)).toBe(false);
  expect(puts()).toBe(0);
});
test('without an error, a failed load can be repeated', async () => {
  scene.backend.fail = 500;
  list.show('done', null);
  await vi.waitFor(() => expect(list.view.status).toBe('error'));
  scene.backend.fail = null;
  await list.load();
  expect(list.view.status).toBe('ready');
});
