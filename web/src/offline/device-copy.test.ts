import { expect, test, vi } from 'vitest';
import { InboxApi } from '../api/inbox';
import { NotStored, Unreachable } from '../api/problem';
import { Api } from '../api/api';
import type { Account } from '../api/types';
import { Scene } from '../test/backend';
import { Browser, fork, message, myChannel, snapshot, store } from '../test/make';
import { inboxItem } from '../test/inbox';
import type { CopyDatabase, StoredConversation, StoredState } from './database';
import { DeviceCopy } from './device-copy';
import { eraseCopies, isCopied, setKeepsMessages } from './kept';
import type { WindowMessage, Windows } from './windows';

const SCOPE = 'user_me.ws_1';
const account = {
  user: { id: 'user_me' },
  workspaces: [{ id: 'ws_1', slug: 'northwind' }],
} as unknown as Account;

/** Storage of a browser, which windows share. */
class Disk implements CopyDatabase {
  state: StoredState | null = null;
  conversations = new Map<string, StoredConversation>();
  isFull = false;
  read() {
    const state = this.state;
    return Promise.resolve(
      state && structuredClone({ state, conversations: [...this.conversations.values()] }),
    );
  }
  write({ state, changed, removed, isComplete }: Parameters<CopyDatabase['write']>[0]) {
    if (this.isFull) return Promise.reject(new Error('the storage is full'));
    this.state = state;
    if (isComplete) this.conversations.clear();
    for (const id of removed) this.conversations.delete(id);
    for (const c of changed) this.conversations.set(c.id, c);
    return Promise.resolve();
  }
}
/** Channels between windows. */
class Channel {
  listeners = new Set<(m: WindowMessage) => void>();
  open(): Windows {
    const own = new Set<(m: WindowMessage) => void>();
    return {
      post: (m) => {
        for (const listener of this.listeners) if (!own.has(listener)) listener(structuredClone(m));
      },
      listen: (listener) => {
        own.add(listener);
        this.listeners.add(listener);
        return () => this.listeners.delete(listener);
      },
    };
  }
}
class Computer {
  disk = new Disk();
  device = store();
  channel = new Channel();
  browser = new Browser();
  now = Date.parse('2026-01-05T09:00:00Z');
  /** A window of Mia. */
  async window(of: { isOffline?: boolean; visible?: boolean; confirmed?: Promise<boolean> } = {}) {
    const scene = new Scene(this.browser);
    if (of.confirmed) scene.confirmed = of.confirmed;
    const { ws, backend } = scene;
    backend.snapshot = snapshot({ seq: 50, epoch: 'e1', channels: [myChannel()] });
    backend.messages = [message({ seq: 10 }), message({ seq: 11 })];
    if (of.isOffline) backend.lost = /./;
    const copy = new DeviceCopy(ws, {
      scope: SCOPE,
      store: this.device,
      database: this.disk,
      windows: this.channel.open(),
      api: new Api({ fetch: backend.fetch, base: 'http://x' }).in('ws_1'),
      account: () => account,
      isVisible: () => of.visible ?? true,
      now: () => this.now++,
    });
    ws.copy = copy;
    const started = ws.start();
    await (of.confirmed ? vi.waitFor(() => expect(ws.status).toBe('ready')) : started);
    if (of.isOffline) ws.connection.net = 'offline';
    else scene.live();
    return { scene, ws, backend, copy };
  }
}
/** Message of a window with an open conversation. */
const opened = {
  conversations: [{ id: 'thread_1', channel_id: 'chan_1', messages: [message()], hasOlder: false }],
  lists: [],
  threads: [],
};
const contents = (messages: { content: string }[]) => messages.map((m) => m.content);

test('a window writes what is open, at the event that it applied last, and a start shows it without a request', async () => {
  const computer = new Computer();
  const { scene, ws, copy } = await computer.window();
  await ws.thread('thread_1').load();
  scene.created({ content: 'arrives later' });
  await copy.flush();
  expect(computer.disk.state!.snapshot).toMatchObject({ seq: ws.position.seq, epoch: 'e1' });
  ws.stop();
  const next = await computer.window({ isOffline: true });
  expect(next.ws.status).toBe('ready');
  expect(next.ws.connection.storedAt).toBe(computer.disk.state!.at);
  await next.ws.thread('thread_1').load();
  expect(contents(next.ws.thread('thread_1').messages)).toEqual([
    'message 10',
    'message 11',
    'arrives later',
  ]);
  expect(next.backend.calls.filter((c) => /snapshot|threads/.test(c))).toEqual([]);
  await expect(next.ws.api.thread('thread_2')).rejects.toThrow(NotStored);
  next.ws.stop();
});
test('a start without a connection has the inbox of the copy', async () => {
  const computer = new Computer();
  const first = await computer.window();
  await vi.waitFor(() => expect(first.copy.mirror.items).not.toBeNull());
  first.copy.mirror.items = new Map([['inbox_1', inboxItem()]]);
  await first.copy.flush();
  first.ws.stop();
  const { ws } = await computer.window({ isOffline: true });
  const page = await ws.api.part(InboxApi).list({ state: 'open' });
  expect(page.data.map((i) => i.id)).toEqual(['inbox_1']);
  ws.stop();
});
test('after a start, the inbox is read again, because items can close without an event', async () => {
  const computer = new Computer();
  const first = await computer.window();
  await vi.waitFor(() => expect(first.copy.mirror.items).not.toBeNull());
  first.copy.mirror.items = new Map([['inbox_1', inboxItem()]]);
  await first.copy.flush();
  first.ws.stop();
  const { ws, copy } = await computer.window();
  await vi.waitFor(() => expect(copy.mirror.items?.size).toBe(0));
  ws.stop();
});
test('counts are stored even if they include events after the last one of this window', async () => {
  const computer = new Computer();
  const first = await computer.window();
  first.ws.channels.recount([myChannel({ unread_count: 3 })], 60, first.ws.channels.levels);
  await first.copy.flush();
  expect(computer.disk.state).toMatchObject({ exact: 60, snapshot: { seq: 50 } });
  first.ws.stop();
  const { ws } = await computer.window({ isOffline: true });
  for (const seq of [60, 61]) ws.channels.count('chan_1', false, false, seq);
  expect(ws.channels.map.get('chan_1')!.unread_count).toBe(4);
  ws.stop();
});
test('a copy that another version of the client wrote is erased, and the server is asked', async () => {
  const computer = new Computer();
  const first = await computer.window();
  await first.copy.flush();
  first.ws.stop();
  const state: StoredState = computer.disk.state!;
  computer.disk.state = { ...state, snapshot: { me: state.snapshot.me } } as unknown as StoredState;
  const { ws, backend } = await computer.window();
  expect([ws.status, ws.connection.storedAt]).toEqual(['ready', null]);
  expect(backend.calls).toContain('GET /v1/snapshot');
  ws.stop();
});
test('after a write that failed, everything is written again', async () => {
  const computer = new Computer();
  const { ws, copy } = await computer.window();
  await ws.thread('thread_1').load();
  await copy.flush();
  computer.disk.conversations.set('thread_9', {
    id: 'thread_9',
    channel_id: 'chan_9',
    messages: [],
    hasOlder: false,
  });
  computer.disk.isFull = true;
  ws.channels.map.delete('chan_1'); // left, so that the conversation is dropped
  copy.reset();
  await copy.flush();
  expect(computer.disk.conversations.size).toBe(2);
  computer.disk.isFull = false;
  await copy.flush();
  expect(computer.disk.conversations.size).toBe(0);
  ws.stop();
});
test('the last value of what was changed without a connection is sent once', async () => {
  const computer = new Computer();
  const first = await computer.window();
  await first.ws.thread('thread_1').load();
  first.copy.mirror.items = new Map([['inbox_1', inboxItem()]]);
  await first.copy.flush();
  first.ws.stop();
  const { ws } = await computer.window({ isOffline: true });
  await ws.thread('thread_1').load();
  expect((await ws.api.follow('thread_1', 'none')).level).toBe('none');
  expect((await ws.api.follow('thread_1', 'all')).level).toBe('all');
  expect((await ws.api.setChannelLevel('chan_1', 'none')).level).toBe('none');
  expect(await ws.readTo('thread_1', 10)).toMatchObject({ unread_count: 1 });
  expect(await ws.readTo('thread_1', 11)).toMatchObject({ unread_count: 0 });
  expect((await ws.api.thread('thread_1')).follow?.level).toBe('all'); // also after another start
  ws.stop();
  const back = await computer.window();
  await vi.waitFor(() => expect(back.copy.changes.all()).toEqual([]));
  const sent = back.backend.calls.filter((c) => /^(PUT|DELETE)/.test(c));
  expect(sent.sort()).toEqual([
    'PUT /v1/channels/chan_1/level',
    'PUT /v1/threads/thread_1/follow',
    'PUT /v1/threads/thread_1/read',
  ]);
  expect(back.backend.bodies).toContainEqual({ level: 'all' });
  expect(back.backend.bodies).toContainEqual({ seq: 11 });
  back.ws.stop();
});
test('what was changed without a connection is sent before the counts are read again', async () => {
  const computer = new Computer();
  const first = await computer.window();
  await first.copy.flush();
  first.copy.changes.put({ kind: 'read', id: 'thread_1', value: 11 });
  first.ws.stop();
  const { ws, backend } = await computer.window();
  await vi.waitFor(() => expect(backend.calls).toContain('GET /v1/snapshot'));
  const sent = backend.calls.indexOf('PUT /v1/threads/thread_1/read');
  expect(sent).toBeGreaterThanOrEqual(0);
  expect(sent).toBeLessThan(backend.calls.indexOf('GET /v1/snapshot'));
  ws.stop();
});
test('a level that another window sends while a snapshot is on its way is kept', async () => {
  const computer = new Computer();
  const { ws, copy } = await computer.window();
  copy.changes.put({ kind: 'level', id: 'chan_1', value: 'none' });
  const addLevels = copy.waitingLevels();
  for (const change of copy.changes.all()) copy.changes.sent(change);
  const channels = [myChannel()];
  addLevels(channels);
  expect(channels[0]!.level).toBe('none');
  ws.stop();
});
test('a change that the server refuses is dropped, and one that it cannot take now waits', async () => {
  const computer = new Computer();
  const first = await computer.window();
  first.copy.changes.put({ kind: 'follow', id: 'thread_1', value: 'all' });
  first.backend.refuse = /follow/;
  await first.copy.live(false);
  expect(first.copy.changes.all()).toEqual([]);
  first.backend.refuse = null;
  first.copy.changes.put({ kind: 'level', id: 'chan_1', value: 'all' });
  first.backend.fail = 503;
  await first.copy.live(false);
  expect(first.copy.changes.all()).toHaveLength(1);
  first.ws.stop();
});
test('only the leading window writes; it also stores what another window shows', async () => {
  const computer = new Computer();
  const leader = await computer.window();
  const other = await computer.window();
  expect([leader.ws.outbox.leads, other.ws.outbox.leads]).toEqual([true, false]);
  await other.ws.thread('thread_1').load();
  await other.copy.flush();
  expect(computer.disk.state).toBeNull();
  await leader.copy.flush();
  expect([...computer.disk.conversations.keys()]).toEqual(['thread_1']);
  leader.ws.stop();
  expect(other.ws.outbox.leads).toBe(true);
  other.scene.created({ content: 'after the leader left' });
  await other.copy.flush();
  expect(contents(computer.disk.conversations.get('thread_1')!.messages)).toContain('after the leader left');
  other.ws.stop();
});
test('other windows take over changes of the inbox, and know whether one is visible', async () => {
  const computer = new Computer();
  const leader = await computer.window({ visible: false });
  const other = await computer.window({ visible: false });
  const since = other.ws.inbox.seq;
  leader.copy.shareInbox(since, { data: [], open: 7, seq: since + 1, resync: false });
  expect(other.ws.inbox.open).toBe(7);
  expect(await leader.copy.isAnyVisible()).toBe(false);
  const third = await computer.window({ visible: true });
  expect(await leader.copy.isAnyVisible()).toBe(true);
  for (const { ws } of [leader, other, third]) ws.stop();
});
test('nothing is written after the switch, the end of the session, or a sign-in of another user', async () => {
  const computer = new Computer();
  const { scene, copy, ws } = await computer.window();
  await copy.flush();
  expect(isCopied(computer.device, SCOPE)).toBe(true);
  copy.erase();
  expect(isCopied(computer.device, SCOPE)).toBe(false);
  computer.disk.state = null;
  scene.current = false;
  scene.created();
  await copy.flush();
  expect(computer.disk.state).toBeNull();
  scene.current = true;
  setKeepsMessages(computer.device, false);
  scene.created();
  await copy.flush();
  expect(computer.disk.state).toBeNull();
  ws.stop();
});
test('a copy is erased if the user signs out in another window while it is written', async () => {
  const computer = new Computer();
  const { scene, copy, ws } = await computer.window();
  const write = computer.disk.write.bind(computer.disk);
  computer.disk.write = (change) => {
    scene.current = false;
    return write(change);
  };
  await copy.flush();
  expect(isCopied(computer.device, SCOPE)).toBe(false);
  ws.stop();
});
test('after the membership ended, nothing is written until the server gives access again', async () => {
  const computer = new Computer();
  const { scene, copy, ws } = await computer.window();
  await copy.flush();
  copy.erase();
  scene.created();
  await copy.flush();
  expect(isCopied(computer.device, SCOPE)).toBe(false);
  copy.reset();
  await copy.flush();
  expect(isCopied(computer.device, SCOPE)).toBe(true);
  ws.stop();
});
test('what another window erases is not shown by an open window without a connection', async () => {
  const computer = new Computer();
  computer.device = store(computer.browser);
  const another = computer.browser.open().store;
  for (const erase of [() => eraseCopies(another), () => setKeepsMessages(another, false)]) {
    const { scene, backend, copy, ws } = await computer.window();
    await ws.thread('thread_1').load();
    await copy.flush();
    backend.lost = /./;
    ws.connection.net = 'offline';
    expect((await ws.api.thread('thread_1')).id).toBe('thread_1');
    erase();
    await vi.waitFor(() => expect(copy.mirror.conversations.size).toBe(0));
    await expect(ws.api.thread('thread_1')).rejects.toThrow(NotStored);
    computer.channel.open().post({ type: 'opened', epoch: 'e1', seq: 1000, ...opened });
    scene.created();
    await copy.flush();
    expect([copy.mirror.conversations.size, isCopied(computer.device, SCOPE)]).toEqual([0, false]);
    ws.stop();
  }
});
test('the switch is followed by all windows, in both directions', async () => {
  const computer = new Computer();
  computer.device = store(computer.browser);
  const another = computer.browser.open().store;
  const { copy, ws } = await computer.window();
  await ws.thread('thread_1').load();
  await copy.flush();
  setKeepsMessages(another, false);
  await vi.waitFor(() => expect(copy.mirror.conversations.size).toBe(0));
  setKeepsMessages(another, true);
  await vi.waitFor(() => expect(copy.mirror.items).not.toBeNull());
  await copy.flush();
  expect(isCopied(computer.device, SCOPE)).toBe(true);
  expect([...computer.disk.conversations.keys()]).toContain('thread_1');
  ws.stop();
});
test('a window that was opened while copies were off makes one once they are on', async () => {
  const computer = new Computer();
  setKeepsMessages(computer.device, false);
  const { copy, ws } = await computer.window();
  await ws.thread('thread_1').load();
  setKeepsMessages(computer.device, true);
  copy.switched();
  await copy.flush();
  expect(isCopied(computer.device, SCOPE)).toBe(true);
  ws.stop();
});
test('a window that stays open erases the copy after 14 days without contact', async () => {
  const computer = new Computer();
  const { backend, copy, ws } = await computer.window();
  await ws.thread('thread_1').load();
  await copy.flush();
  ws.connection.live = false;
  ws.connection.net = 'offline';
  backend.lost = /./;
  computer.now += 13 * 86_400_000;
  expect((await ws.api.thread('thread_1')).id).toBe('thread_1');
  computer.now += 2 * 86_400_000;
  await expect(ws.api.thread('thread_1')).rejects.toThrow(NotStored);
  expect([copy.mirror.conversations.size, isCopied(computer.device, SCOPE)]).toEqual([0, false]);
  ws.stop();
});
test('the time of the last contact stays while there is no connection', async () => {
  const computer = new Computer();
  const { scene, copy, ws } = await computer.window();
  await copy.flush();
  const { at } = computer.disk.state!;
  ws.connection.live = false;
  scene.created();
  await copy.flush();
  expect(computer.disk.state!.at).toBe(at);
  ws.stop();
});
test('until the server has told whose session it is, the copy is only shown', async () => {
  const computer = new Computer();
  const first = await computer.window();
  await first.ws.thread('thread_1').load();
  await first.copy.flush();
  first.ws.stop();
  let answer: (isTheirs: boolean) => void = () => undefined;
  const confirmed = new Promise<boolean>((done) => (answer = done));
  const { scene, ws, backend } = await computer.window({ confirmed });
  scene.current = false;
  await ws.thread('thread_1').load();
  expect(contents(ws.thread('thread_1').messages)).toEqual(['message 10', 'message 11']);
  expect((await ws.api.follow('thread_1', 'none')).level).toBe('none');
  expect([ws.connection.live, backend.calls.filter((c) => /^PUT/.test(c))]).toEqual([false, []]);
  scene.current = true;
  answer(true);
  await vi.waitFor(() => {
    scene.live();
    expect(backend.calls).toContain('PUT /v1/threads/thread_1/follow');
  });
  ws.stop();
});
test('a window that takes over sends what waits, and reads the inbox', async () => {
  const computer = new Computer();
  const leader = await computer.window();
  const { ws, copy } = await computer.window();
  copy.changes.put({ kind: 'level', id: 'chan_1', value: 'none' });
  leader.ws.stop();
  await vi.waitFor(() => expect(copy.changes.all()).toEqual([]));
  await vi.waitFor(() => expect(copy.mirror.items).not.toBeNull());
  ws.stop();
});
test('a marker does not undo what was read on another device, unless the person moved it back', async () => {
  const computer = new Computer();
  const first = await computer.window();
  await first.ws.thread('thread_1').load();
  await first.copy.flush();
  first.ws.stop();
  const away = await computer.window({ isOffline: true });
  await away.ws.readTo('thread_1', 11);
  away.ws.stop();
  const { ws, backend, copy } = await computer.window({ isOffline: true });
  backend.threads.set('thread_1', { ...backend.threads.get('thread_1')!, read_seq: 11 });
  backend.lost = null;
  await copy.live(true);
  expect(backend.calls.filter((c) => c.startsWith('PUT'))).toEqual([]);
  expect(copy.changes.all()).toEqual([]);
  ws.connection.net = 'offline';
  await ws.readTo('thread_1', 9); // marked as unread
  expect(copy.changes.all()).toMatchObject([{ value: 9, isBack: true }]);
  await copy.live(true);
  expect(backend.bodies).toContainEqual({ seq: 9 });
  ws.stop();
});
test('a window that takes over keeps what was open in the one before', async () => {
  const computer = new Computer();
  const leader = await computer.window();
  const { ws, copy } = await computer.window();
  await leader.ws.thread('thread_1').load();
  await leader.copy.flush();
  leader.ws.stop();
  await copy.flush();
  expect(contents(computer.disk.conversations.get('thread_1')!.messages)).toEqual([
    'message 10',
    'message 11',
  ]);
  ws.stop();
});
test('a request that changes something waits until the server has told whose session it is', async () => {
  const computer = new Computer();
  const first = await computer.window();
  await first.copy.flush();
  first.ws.stop();
  let answer: (isTheirs: boolean) => void = () => undefined;
  const confirmed = new Promise<boolean>((done) => (answer = done));
  const { scene, ws, backend } = await computer.window({ confirmed });
  scene.current = false;
  const reaction = ws.api.react('msg_1', '👍', true).catch(() => undefined);
  await ws.thread('thread_1').load();
  expect(backend.calls.filter((c) => !c.startsWith('GET'))).toEqual([]);
  scene.current = true;
  answer(true);
  await reaction;
  expect(backend.calls.some((c) => c.startsWith('PUT /v1/messages/msg_1/reactions'))).toBe(true);
  backend.calls.length = 0;
  scene.current = false; // another user signed in
  await expect(ws.api.react('msg_1', '👍', true)).rejects.toBeInstanceOf(Unreachable);
  ws.connection.net = 'offline';
  await expect(ws.api.react('msg_1', '👍', true)).rejects.toBeInstanceOf(Unreachable);
  expect(backend.calls).toEqual([]);
  ws.stop();
});
test('an older value that waits is not sent after a newer one', async () => {
  const computer = new Computer();
  const { ws, backend, copy } = await computer.window();
  const other = await computer.window();
  copy.changes.put({ kind: 'level', id: 'chan_1', value: 'none' });
  backend.fail = 503;
  await copy.live(false);
  expect(copy.changes.all()).toHaveLength(1);
  backend.fail = null;
  expect((await other.ws.api.setChannelLevel('chan_1', 'all')).level).toBe('all');
  await vi.waitFor(() => expect(copy.changes.all()).toEqual([]));
  const levels = [...backend.bodies, ...other.backend.bodies].filter((b) => (b as { level?: string }).level);
  expect(levels).toEqual([{ level: 'none' }, { level: 'all' }]);
  ws.stop();
  other.ws.stop();
});
test('deep dives of a private channel leave the copy with the membership', async () => {
  const computer = new Computer();
  const { scene, ws, copy } = await computer.window();
  scene.event('fork.created', { fork: fork({ channel_id: 'chan_1' }) });
  await copy.flush();
  expect(computer.disk.state!.snapshot.open_forks).toHaveLength(1);
  const channel = { ...myChannel(), kind: 'private' };
  scene.event('channel.updated', { channel });
  scene.event('channel.member_removed', { channel, user_id: 'user_me' });
  await copy.flush();
  expect(computer.disk.state!.snapshot).toMatchObject({ channels: [], open_forks: [] });
  ws.stop();
});
test('a start does not wait for a read that does not end', async () => {
  const computer = new Computer();
  const first = await computer.window();
  await first.copy.flush();
  first.ws.stop();
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  computer.disk.read = () => new Promise(() => undefined);
  const started = computer.window();
  await vi.advanceTimersByTimeAsync(6000);
  const { ws, backend } = await started;
  expect([ws.status, backend.calls.includes('GET /v1/snapshot')]).toEqual(['ready', true]);
  ws.stop();
  vi.useRealTimers();
});
test('a window that is closed while the inbox is read again leaves the items in the copy', async () => {
  const computer = new Computer();
  const first = await computer.window();
  first.copy.mirror.items = new Map([['inbox_1', inboxItem()]]);
  await first.copy.flush();
  first.ws.stop();
  const { ws, copy, backend } = await computer.window();
  backend.lost = /inbox/;
  await copy.live(true);
  await copy.flush();
  expect(computer.disk.state!.items).toHaveLength(1);
  ws.stop();
});
