import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { ServerEvent } from '../api/events';
import type { Message, Thread } from '../api/types';
import { Scene, type Backend } from '../test/backend';
import { AT, fromAgent, member, message, myChannel, snapshot, task, thread } from '../test/make';
import type { WorkspaceState } from './workspace.svelte';

let scene: Scene;
let backend: Backend;
let ws: WorkspaceState;
let said: string[];

beforeEach(async () => {
  scene = new Scene();
  ({ backend, ws, said } = scene);
  await ws.start();
});
afterEach(() => ws.stop());

const event = (type: ServerEvent['type'], data: unknown, more: object = {}) => scene.event(type, data, more);
const created = (m: Partial<Message> = {}) => scene.created(m);
const general = () => ws.channels.map.get('chan_1')!;
const forMe = [{ type: 'user' as const, id: 'user_me', handle: 'mia', start: 0, length: 4 }];

test('messages of others count as unread, mine and notices do not', () => {
  created();
  created({ mentions: forMe });
  created({ author: { type: 'human', id: 'user_me', name: 'Mia', avatar_url: null } });
  created({ kind: 'notice', author: { type: 'system', id: null, name: 'OpenVibe', avatar_url: null } });
  expect(general()).toMatchObject({ unread_count: 2, mention_count: 1 });
});
test('in a muted thread only mentions count, even if it is not loaded', () => {
  ws.learnThread(backend.threads.get('thread_1')!);
  const muted = { level: 'none', cause: 'manual' } as const;
  ws.onFrame({ type: 'follow.updated', thread_id: 'thread_1', follow: muted });
  ws.threads.setFollow('thread_2', muted);
  created({ id: 'msg_1' });
  created({ mentions: forMe });
  created({ thread_id: 'thread_2' });
  expect(general()).toMatchObject({ unread_count: 0, mention_count: 1 });
  expect(ws.threads.map.get('thread_1')).toMatchObject({ unread_count: 0, mention_count: 1, follow: muted });
  ws.threads.setFollow('thread_2', { level: 'mentions', cause: 'manual' });
  created({ thread_id: 'thread_2' });
  expect(general().unread_count).toBe(1);
});
test('a message that appears on screen counts as unread until it has been on screen', async () => {
  const t = ws.thread('thread_1');
  await t.load();
  t.watching = true;
  const m = created();
  expect(general().unread_count).toBe(1);
  await t.reading.seen([m.seq]);
  expect(general().unread_count).toBe(0);
  expect(t.messages).toHaveLength(1);
});
test('a thread’s counters count each of its messages once', () => {
  ws.learnThread(backend.threads.get('thread_1')!);
  const root = created({ id: 'msg_1' });
  const reply = created();
  event('message.created', { message: reply }, { seq: reply.seq }); // as after a newer list
  expect(ws.threads.map.get('thread_1')).toMatchObject({
    reply_count: 1,
    unread_count: 2,
    last_seq: reply.seq,
    root_message: { id: root.id },
  });
});
test('reading a thread reduces the channel’s unread count', async () => {
  ws.learnThread(backend.threads.get('thread_1')!);
  created({ id: 'msg_1' });
  created({ thread_id: 'thread_2' });
  await ws.thread('thread_1').markAllRead();
  expect(general().unread_count).toBe(1);
});
test('a channel’s count at its limit of 1,000 is loaded again after reading', async () => {
  ws.learnThread(backend.threads.get('thread_1')!);
  created({ id: 'msg_1' });
  const [channel] = backend.snapshot.channels;
  const all = { ...channel!, unread_count: 1000 };
  ws.channels.load([all], ws.channels.map.size);
  backend.snapshot = { ...backend.snapshot, seq: 1000, channels: [{ ...all, unread_count: 700 }] };
  await ws.thread('thread_1').markAllRead();
  await vi.waitFor(() => expect(general().unread_count).toBe(700));
});
test('a page next to replaced messages is dropped', async () => {
  const t = ws.thread('thread_1');
  backend.messages = [message({ seq: 60 }), message({ seq: 61 })];
  await t.load();
  t.hasOlder = true;
  let open = () => {};
  backend.gate = new Promise((done) => (open = done));
  const older = t.loadOlder();
  backend.messages = [message({ seq: 5 }), message({ seq: 6 })];
  backend.gate = null;
  await t.load({ around: 'msg_5' });
  backend.messages = [message({ seq: 58 }), message({ seq: 59 })];
  open();
  await older;
  expect(t.messages.map((m) => m.seq)).toEqual([5, 6]);
  expect(t.busy).toBeNull();
});
test('a thread marked as unread stays so until it is left', async () => {
  const t = ws.thread('thread_1');
  backend.messages = [message({ seq: 5 }), message({ seq: 6 })];
  await t.load();
  await t.markUnreadFrom(t.messages[1]!);
  expect(t.reading.divider?.id).toBe('msg_6');
  backend.calls = [];
  await t.reading.seen([6]);
  expect(backend.calls).toEqual([]);
  t.leave();
  t.enter();
  await t.reading.seen([6]);
  expect(backend.calls).toEqual(['PUT /v1/threads/thread_1/read']);
});
test('events during loading win over the response; fields that only the response has are taken', async () => {
  const loading = ws.thread('thread_1').load();
  const asked = { ...backend.threads.get('thread_1')! };
  backend.threads.set('thread_1', { ...asked, status: 'open', unread_count: 3 });
  event('thread.updated', { thread: { ...asked, status: 'archived' } });
  await loading;
  expect(ws.threads.map.get('thread_1')).toMatchObject({ status: 'archived', unread_count: 3 });
  await ws.thread('thread_1').reload();
  expect(ws.threads.map.get('thread_1')).toMatchObject({ status: 'open' });
});
test('a deleted thread leaves the lists, and its view says so', async () => {
  const open = ws.thread('thread_1');
  await open.load();
  const list = ws.channel('chan_1');
  await list.load();
  expect(list.has('thread_1')).toBe(true);
  event('thread.deleted', { thread_id: 'thread_1', channel_id: 'chan_1' });
  expect([open.status, open.messages, list.has('thread_1')]).toEqual(['missing', [], false]);
  expect(ws.threads.map.has('thread_1')).toBe(false);
});
test('a channel into which messages were imported is loaded again', async () => {
  const list = ws.channel('chan_1');
  await list.load();
  const old = thread({ id: 'thread_old', last_seq: -5 });
  backend.lists.set('chan_1', [old]);
  event('channel.imported', { channel_id: 'chan_1' }, { channel_id: 'chan_1' });
  await vi.waitFor(() => expect(list.ids).toContain('thread_old'));
});
test('events during loading win over the page', async () => {
  const old = message({ seq: 5, content: 'before' });
  backend.messages = [old];
  const t = ws.thread('thread_1');
  const loading = t.load();
  event('message.updated', { message: { ...old, content: 'after' } });
  created({ id: 'msg_new' });
  await loading;
  expect(t.messages.map((m) => m.content)).toEqual(['after', expect.stringContaining('message')]);
});
test('the unread divider is at the first message after the read marker and does not move', async () => {
  const there = { ...backend.threads.get('thread_1')!, read_seq: 5, unread_count: 2 };
  backend.threads.set('thread_1', { ...there, first_unread_id: 'msg_6' } as Thread);
  backend.messages = [message({ seq: 5 }), message({ seq: 6 }), message({ seq: 7 })];
  const t = ws.thread('thread_1');
  await t.load();
  expect(t.reading.divider?.id).toBe('msg_6');
  await t.reading.seen([7]);
  created();
  expect(t.reading.divider?.id).toBe('msg_6');
});
test('deltas can arrive before the message and after its end', async () => {
  await ws.thread('thread_1').load();
  event('task.status_changed', { task: task({ status: 'running' }) });
  const delta = (offset: number, text: string) =>
    ws.onFrame({ type: 'task.delta', task_id: 'task_1', message_id: 'msg_r', attempt: 1, offset, text });
  delta(0, 'Hel');
  created({
    ...fromAgent({ id: 'msg_r', state: 'streaming', content: '', metadata: { task_id: 'task_1' } }),
    seq: scene.seq + 1,
  });
  delta(3, 'lo');
  expect(ws.streams.map.get('msg_r')!.text).toBe('Hello');
  event('message.updated', {
    message: fromAgent({ id: 'msg_r', content: 'Hello.', metadata: { task_id: 'task_1' } }),
  });
  delta(5, '!');
  expect(ws.streams.map.size).toBe(0);
  expect(ws.thread('thread_1').messages[0]!.content).toBe('Hello.');
});
test('the live region announces the start and end of a reply in the open thread', async () => {
  const t = ws.thread('thread_1');
  await t.load();
  t.watching = true;
  for (const status of ['queued', 'running', 'completed'] as const)
    event('task.status_changed', { task: task({ status }) });
  expect(said).toEqual(['Vibe is replying', 'Vibe replied']);
});
test('an ended task is not reverted by a slow response', () => {
  event('task.status_changed', { task: task({ status: 'completed' }) });
  ws.learnTasks([task({ status: 'queued' })]);
  expect(ws.tasks.map.get('task_1')!.status).toBe('completed');
});
test('a running task is not reverted to queued by the response to its trigger message', () => {
  event('task.status_changed', { task: task({ status: 'running' }) });
  ws.learnTasks([task({ status: 'queued' })]);
  expect(ws.tasks.map.get('task_1')!.status).toBe('running');
});
test('a reaction appears immediately and is reverted if rejected', async () => {
  backend.messages = [message({ id: 'msg_a', seq: 5 })];
  const t = ws.thread('thread_1');
  await t.load();
  const pending = ws.outgoing.react(t.messages[0]!, '👍');
  expect(t.messages[0]!.reactions).toEqual([{ emoji: '👍', user_ids: ['user_me'], agent_ids: [] }]);
  await pending;
  backend.fail = 403;
  await expect(ws.outgoing.react(t.messages[0]!, '🎉')).rejects.toThrow('No.');
  expect(t.messages[0]!.reactions).toEqual([{ emoji: '👍', user_ids: ['user_me'], agent_ids: [] }]);
});
test('leaving removes a private channel; a public one can be joined again', () => {
  event(
    'channel.created',
    { channel: { ...general(), id: 'chan_p', kind: 'private', name: 'plans' } },
    { channel_id: 'chan_p' },
  );
  expect(ws.channels.joined.map((c) => c.name)).toEqual(['general', 'plans']);
  for (const channel_id of ['chan_p', 'chan_1'])
    event(
      'channel.member_removed',
      { channel: ws.channels.map.get(channel_id), user_id: 'user_me' },
      { channel_id },
    );
  expect(ws.channels.joined).toEqual([]);
  expect(ws.channels.others.map((c) => c.name)).toEqual(['general']);
});
test('after joining a channel, later messages count, even while requests are in flight', () => {
  const plans = { ...general(), id: 'chan_p', kind: 'private', name: 'plans' };
  event('channel.member_added', { channel: plans, user_id: 'user_me' }, { channel_id: 'chan_p' });
  created({ channel_id: 'chan_p', thread_id: 'thread_p' });
  ws.channels.put({ ...plans, kind: 'private', is_member: true, unread_count: 0, mention_count: 0 }); // a slow response
  created({ channel_id: 'chan_p', thread_id: 'thread_p' });
  expect(ws.channels.map.get('chan_p')!.unread_count).toBe(2);
});
test('messages read in another window are not counted twice by a snapshot ahead of the events', async () => {
  created();
  created();
  backend.snapshot = snapshot({ seq: scene.seq + 1, channels: [myChannel({ unread_count: 1 })] });
  ws.onFrame({ type: 'read.updated', thread_id: 'thread_x', seq: scene.seq });
  await vi.waitFor(() => expect(general().unread_count).toBe(1));
  created(); // the event that the snapshot included
  expect(general().unread_count).toBe(1);
  created();
  expect(general().unread_count).toBe(2);
});
test('members join, are renamed, and leave', () => {
  event('member.joined', { member: member('user_cy', 'Cy', 'cy') });
  event('member.updated', { member: { ...member('user_me', 'Mia B', 'mia'), role: 'admin' } });
  expect(ws.people.isAdmin).toBe(true);
  expect(ws.people.nameOf({ type: 'human', id: 'user_cy', name: 'old' })).toBe('Cy');
  event('member.removed', { member: member('user_cy', 'Cy', 'cy') });
  expect(ws.people.members.size).toBe(2);
});

test('after a change to a guest, the number of guests is loaded again', () => {
  const gus = { ...member('user_gus', 'Gus', 'gus'), role: 'guest' as const };
  event('member.joined', { member: gus });
  expect(ws.channels.miscounted.has('chan_1')).toBe(true);
  ws.channels.miscounted.clear();
  event('channel.member_removed', { channel: general(), user_id: gus.user_id }, { channel_id: 'chan_1' });
  expect([...ws.channels.miscounted]).toEqual(['chan_1']);
  ws.channels.miscounted.clear();
  event('member.updated', { member: { ...gus, role: 'member' } });
  expect(ws.channels.miscounted.has('chan_1')).toBe(true);
  ws.channels.miscounted.clear();
  event('member.joined', { member: member('user_cy', 'Cy', 'cy') });
  expect(ws.channels.miscounted.size).toBe(0);
});

/** Any order of posts, edits, deletions and page loads leaves the open thread equal to a fresh load. */
test.each(Array.from({ length: 40 }, (_, i) => i + 1))('convergence, seed %i', async (seed) => {
  let r = seed * 2654435761;
  const dice = (n: number) => {
    r = Math.imul(r ^ (r >>> 15), 2246822519) >>> 0;
    return (r >>> 8) % n;
  };
  const t = ws.thread('thread_1');
  const loads: Promise<void>[] = [];
  let at = 200;
  for (let step = 0; step < 60; step++) {
    const live = backend.messages;
    const pick = live[dice(Math.max(1, live.length))];
    const what = dice(6);
    const emit = (type: string, m: Message) => {
      backend.messages = [...live.filter((x) => x.id !== m.id), m].sort((a, b) => a.seq - b.seq);
      event(type as 'message.updated', { message: m });
    };
    if (what < 3 || !pick) emit('message.created', message({ id: `msg_${++at}`, seq: at }));
    else if (what === 3) emit('message.updated', { ...pick, content: `edited ${step}` });
    else if (what === 4) emit('message.deleted', { ...pick, content: '', deleted_at: AT });
    else loads.push(t.load());
    if (dice(3) === 0) await Promise.resolve();
  }
  await Promise.all(loads);
  if (!loads.length) await t.load();
  expect(t.messages).toEqual(backend.messages);
});
vi.setConfig({ testTimeout: 5000 });

test('Up in an empty composer edits my newest complete text message, not a result, a notice, or a deleted one', async () => {
  const me = { author: { type: 'human' as const, id: 'user_me', name: 'Mia', avatar_url: null } };
  backend.messages = [
    message({ id: 'msg_text', seq: 5, ...me }),
    message({ id: 'msg_gone', seq: 6, deleted_at: AT, ...me }),
    message({ id: 'msg_result', seq: 7, kind: 'resolution', ...me }),
    message({ id: 'msg_notice', seq: 8, kind: 'notice', ...me }),
    message({ id: 'msg_streaming', seq: 9, state: 'streaming', ...me }),
  ];
  const t = ws.thread('thread_1');
  await t.load();
  t.editLast();
  expect(t.editing).toBe('msg_text');
});
test('a snapshot of another user ends the workspace instead of mixing with it', async () => {
  ws.outbox.add({ channel_id: 'chan_1', thread_id: 'thread_1', direct: false }, 'Hi', false);
  backend.snapshot = snapshot({ me: { ...backend.snapshot.me, id: 'user_bo', name: 'Bo' } });
  await ws.resume();
  expect([scene.ended, ws.myId]).toEqual([1, 'user_me']);
  ws.reconnect();
  await new Promise((done) => setTimeout(done));
  expect(backend.calls.filter((c) => c.startsWith('POST'))).toEqual([]);
});
test('while another user is signed in, a window sends nothing of its own', async () => {
  ws.outbox.add({ channel_id: 'chan_1', thread_id: null, direct: false }, 'Hi', false);
  scene.current = false;
  ws.reconnect();
  await new Promise((done) => setTimeout(done));
  expect(backend.calls.filter((c) => c.startsWith('POST'))).toEqual([]);
  scene.current = true;
  ws.reconnect();
  await vi.waitFor(() => expect(backend.calls).toContain('POST /v1/channels/chan_1/threads'));
});
test('a started thread that is opened later opens at the first reply', async () => {
  ws.outgoing.send({ channel_id: 'chan_1', thread_id: null, direct: false }, 'Hi');
  ws.reconnect();
  await vi.waitFor(() => expect(ws.thread('thread_new').status).toBe('ready'));
  scene.seq = 5000;
  const reply = created({ thread_id: 'thread_new' });
  const t = ws.thread('thread_new');
  t.enter();
  expect(t.reading.divider?.id).toBe(reply.id);
  await t.reading.seen([reply.seq]);
  expect(backend.calls).toContain('PUT /v1/threads/thread_new/read');
});
test('a started thread is followed before it has loaded, also if its event comes first', async () => {
  let open = () => {};
  backend.gate = new Promise((done) => (open = done));
  ws.outgoing.send({ channel_id: 'chan_1', thread_id: null, direct: false }, 'Hi');
  ws.reconnect();
  await vi.waitFor(() => expect(backend.calls).toContain('POST /v1/channels/chan_1/threads'));
  event('thread.created', { thread: thread({ id: 'thread_new' }) });
  expect(ws.threads.map.get('thread_new')!.follow).toBeUndefined();
  open();
  await vi.waitFor(() => expect(ws.threads.map.get('thread_new')!.follow?.level).toBe('all'));
});
test('the cache keeps the threads that the filter Results shows', async () => {
  const list = ws.channel('chan_1');
  list.filtered.ids = new Set(['thread_1']);
  ws.learnThread(backend.threads.get('thread_1')!);
  for (let n = 2; n < 600; n++)
    ws.learnThread({ ...backend.threads.get('thread_1')!, id: `thread_${n}`, channel_id: 'chan_2' });
  expect(ws.threads.map.has('thread_1')).toBe(true);
  expect(ws.threads.map.has('thread_2')).toBe(false);
});
test('threads that match a filter are loaded page by page, and forgotten with the list', async () => {
  const listed = ['thread_far', 'thread_farther'].map((id) => thread({ id, channel_id: 'chan_1' }));
  const pages = [[listed[0]!], [listed[1]!]];
  vi.spyOn(ws.api, 'threads').mockImplementation((_id, cursor, filter) => {
    expect(filter).toBe('results');
    const data = pages[cursor ? 1 : 0]!;
    return Promise.resolve({ object: 'list', data, has_more: !cursor, next_cursor: cursor ? null : 'c' });
  });
  const list = ws.channel('chan_1');
  const { filtered } = list;
  await filtered.load('results');
  expect([[...filtered.ids], filtered.more]).toEqual([['thread_far'], true]);
  await filtered.loadMore();
  expect([[...filtered.ids], filtered.more]).toEqual([['thread_far', 'thread_farther'], false]);
  expect(ws.threads.map.has('thread_farther')).toBe(true);
  list.leave();
  expect(filtered.ids.size).toBe(0);
});

test('a channel that the user has not joined is subscribed to while it is open, and then forgotten', async () => {
  scene.live();
  ws.channels.put(myChannel({ id: 'chan_9', name: 'far', is_member: false }));
  const opened = ws.openChannel('chan_9');
  expect(opened).not.toBeNull();
  expect(scene.sent.at(-1)).toMatchObject({ type: 'subscribe', channel_id: 'chan_9' });
  const there = thread({ id: 'thread_9', channel_id: 'chan_9' });
  backend.threads.set('thread_9', there);
  backend.lists.set('chan_9', [there]);
  await ws.channel('chan_9').load();
  await ws.thread('thread_9').load();
  const [list, state] = [ws.channel('chan_9'), ws.thread('thread_9')];
  expect([list.status, state.status]).toEqual(['ready', 'ready']);
  ws.closeChannel('chan_9');
  expect(scene.sent.at(-1)).toMatchObject({ type: 'unsubscribe', channel_id: 'chan_9' });
  expect(ws.channel('chan_9')).not.toBe(list);
  expect(ws.thread('thread_9')).not.toBe(state);
});
test('tasks in channels that the user has neither joined nor opened are not kept', () => {
  ws.channels.put(myChannel({ id: 'chan_9', name: 'far', is_member: false }));
  for (const id of ['chan_1', 'chan_9']) void ws.openChannel(id);
  ws.tasks.put(task({ id: 'task_1', channel_id: 'chan_1' }));
  ws.tasks.put(task({ id: 'task_9', channel_id: 'chan_9' }));
  ws.closeChannel('chan_1');
  expect([...ws.tasks.map.keys()]).toEqual(['task_1', 'task_9']);
  ws.closeChannel('chan_9');
  expect([...ws.tasks.map.keys()]).toEqual(['task_1']);
});
test('activity marks a channel that the user has not joined until it is opened', () => {
  ws.channels.put(myChannel({ id: 'chan_9', name: 'far', is_member: false }));
  for (const id of ['chan_1', 'chan_9']) ws.onFrame({ type: 'channel.activity', channel_id: id, seq: 20 });
  expect([...ws.channels.active]).toEqual(['chan_9']);
  void ws.openChannel('chan_9');
  expect(ws.channels.active.size).toBe(0);
});
test('a joined channel stays loaded when it is left', async () => {
  expect(ws.openChannel('chan_1')).toBeNull();
  await ws.thread('thread_1').load();
  const state = ws.thread('thread_1');
  ws.closeChannel('chan_1');
  expect(ws.thread('thread_1')).toBe(state);
  event('channel.member_removed', { channel: general(), user_id: 'user_me' }, { thread_id: null });
  expect(ws.thread('thread_1')).not.toBe(state);
});
test('leaving a channel that is on screen keeps it loaded', async () => {
  void ws.openChannel('chan_1');
  await ws.thread('thread_1').load();
  const state = ws.thread('thread_1');
  event('channel.member_removed', { channel: general(), user_id: 'user_me' }, { thread_id: null });
  expect(ws.thread('thread_1')).toBe(state);
  ws.closeChannel('chan_1');
  expect(ws.thread('thread_1')).not.toBe(state);
});
test('a workspace that demands more of the session closes, and opens again once it is met', async () => {
  backend.fail = 403;
  backend.failure = { code: 'second_factor_required', message: 'this workspace requires a second factor' };
  await ws.resume();
  expect([ws.status, ws.refusal]).toEqual(['error', 'second_factor_required']);
  expect(ws.problem).toBe('This workspace requires a second factor');
  backend.fail = null;
  await ws.start();
  expect(ws.status).toBe('ready');
});
