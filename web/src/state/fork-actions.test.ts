import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Fork, Message, Resolution } from '../api/types';
import { uploadsOf } from '../files/uploads-of';
import { mine, Scene } from '../test/backend';
import { AT, fork, message, snapshot, task } from '../test/make';
import { isOpen } from './forks.svelte';

let scene: Scene;
const inFork = (m: Partial<Message> = {}) => scene.created({ fork_id: 'fork_1', ...m });
const forkEvent = (f: Partial<Fork>) => scene.event('fork.updated', { fork: fork(f) }, { fork_id: 'fork_1' });
const forkState = () => scene.ws.fork('fork_1');

beforeEach(async () => {
  scene = new Scene();
  scene.backend.forks.set('fork_1', fork());
  scene.backend.snapshot = snapshot({ open_forks: [fork()] });
  scene.backend.messages = [message({ id: 'msg_1', seq: 1 })];
  await scene.ws.start();
  scene.live();
});
afterEach(() => scene.ws.stop());

test('messages of a dive do not affect the thread, its counts, or unread state', async () => {
  const { ws } = scene;
  await Promise.all([ws.thread('thread_1').load(), forkState().load()]);
  const before = ws.threads.map.get('thread_1')!;
  inFork({ id: 'msg_d' });
  expect(forkState().messages.map((m) => m.id)).toEqual(['msg_d']);
  expect(ws.thread('thread_1').messages.map((m) => m.id)).toEqual(['msg_1']);
  expect(ws.threads.map.get('thread_1')).toEqual(before);
  expect(ws.channels.map.get('chan_1')!.unread_count).toBe(0);
  expect(ws.forks.get('fork_1')!.message_count).toBe(1);
});
test('two dives of one message do not see each other', async () => {
  const { ws } = scene;
  scene.backend.forks.set('fork_2', fork({ id: 'fork_2' }));
  await Promise.all([forkState().load(), ws.fork('fork_2').load()]);
  inFork({ id: 'msg_a' });
  inFork({ id: 'msg_b', fork_id: 'fork_2' });
  expect(forkState().messages.map((m) => m.id)).toEqual(['msg_a']);
  expect(ws.fork('fork_2').messages.map((m) => m.id)).toEqual(['msg_b']);
  expect(ws.forks.openAt('msg_1').map((f) => f.id)).toEqual(['fork_1', 'fork_2']);
});
test('edits, deletions, and reactions reach the dive', async () => {
  await forkState().load();
  const m = inFork({ id: 'msg_d' });
  scene.event('message.updated', { message: { ...m, content: 'edited' } }, { fork_id: 'fork_1' });
  expect(forkState().messages[0]!.content).toBe('edited');
  const reactions = [{ emoji: '👍', user_ids: ['user_bo'] }];
  const change = { message_id: 'msg_d', emoji: '👍', user_id: 'user_bo', reactions };
  scene.event('reaction.added', change, { fork_id: 'fork_1' });
  expect(forkState().messages[0]!.reactions).toEqual(reactions);
  scene.event('message.deleted', { message: { ...m, deleted_at: AT } }, { fork_id: 'fork_1' });
  expect(forkState().messages[0]!.deleted_at).toBe(AT);
});
test('a dive opens with its origin message', async () => {
  await forkState().load();
  await vi.waitFor(() => expect(forkState().origin?.id).toBe('msg_1'));
  expect(forkState().reading.divider).toBeNull();
});
test('the origin message is shown in its current state', async () => {
  await forkState().load();
  await vi.waitFor(() => expect(forkState().origin).not.toBeNull());
  scene.event('message.updated', { message: message({ id: 'msg_1', seq: 1, content: 'Edited.' }) });
  expect(forkState().origin!.content).toBe('Edited.');
});
test('events during loading win over responses', async () => {
  let open = () => undefined as void;
  scene.backend.gate = new Promise((r) => (open = r));
  const loading = forkState().load();
  inFork({ id: 'msg_new' });
  forkEvent({ title: 'Renamed', status: 'resolved', message_count: 1 });
  open();
  await loading;
  expect(forkState().messages.map((m) => m.id)).toEqual(['msg_new']);
  expect(forkState().fork).toMatchObject({ title: 'Renamed', status: 'resolved', message_count: 1 });
});
test('a response does not change a count that events maintain', async () => {
  inFork();
  inFork();
  await forkState().load(); // the in-memory server still has 0
  expect(forkState().fork!.message_count).toBe(2);
});
test('a resolved dive is no longer open, and the list of its thread keeps it', async () => {
  const { ws } = scene;
  forkEvent({ status: 'resolved', resolved_at: AT });
  expect(ws.forks.openIn('thread_1')).toEqual([]);
  expect(ws.forks.openAt('msg_1')).toEqual([]);
  scene.backend.forks.set('fork_1', fork({ status: 'resolved' }));
  scene.backend.forks.set('fork_0', fork({ id: 'fork_0', status: 'abandoned' }));
  await ws.forkActions.list('thread_1');
  expect(ws.forks.inThread('thread_1').map((f) => [f.id, isOpen(f)])).toEqual([
    ['fork_0', false],
    ['fork_1', false],
  ]);
});
test('a reply streams into the watched dive, and a missing delta subscribes again', () => {
  const { ws } = scene;
  const stop = ws.watch('fork_1');
  scene.event(
    'task.status_changed',
    { task: task({ status: 'running', fork_id: 'fork_1' }) },
    { fork_id: 'fork_1' },
  );
  const delta = (offset: number, text: string) =>
    ws.onFrame({ type: 'task.delta', task_id: 'task_1', message_id: 'msg_r', attempt: 1, offset, text });
  delta(0, 'Hel');
  delta(9, 'later');
  const places = scene.sent.filter((f) => f.type === 'subscribe').map((f) => f.fork_id ?? f.thread_id);
  expect(places).toEqual(['fork_1', 'fork_1']);
  expect(ws.streams.map.get('msg_r')).toMatchObject({ text: 'Hel', place: 'fork_1' });
  stop();
  expect(ws.streams.map.size).toBe(0);
  expect(scene.sent.at(-1)).toMatchObject({ type: 'unsubscribe', fork_id: 'fork_1' });
});
test('tasks belong to the dive or to the main line', () => {
  const { ws } = scene;
  ws.learnTasks([task({ id: 'task_a' }), task({ id: 'task_b', fork_id: 'fork_1' })]);
  expect(ws.tasks.inPlace('thread_1').map((t) => t.id)).toEqual(['task_a']);
  expect(ws.tasks.inPlace('fork_1').map((t) => t.id)).toEqual(['task_b']);
});
test('typing indicators belong to the dive', () => {
  const { ws } = scene;
  ws.onFrame({ type: 'typing', thread_id: null, fork_id: 'fork_1', user_id: 'user_bo' });
  expect(ws.typing.in('fork_1')).toEqual(['user_bo']);
  expect(ws.typing.in('thread_1')).toEqual([]);
  ws.typing.report('fork_1');
  expect(scene.sent.at(-1)).toEqual({ type: 'typing', fork_id: 'fork_1' });
});
test('after a gap in the log, the open dive is loaded again', async () => {
  const { ws, backend } = scene;
  await forkState().load();
  backend.messages.push(message({ id: 'msg_missed', seq: 50, fork_id: 'fork_1' }));
  await ws.resume();
  await vi.waitFor(() => expect(forkState().messages.map((m) => m.id)).toEqual(['msg_missed']));
});

// --- started here ---

const origin = message({ id: 'msg_1', seq: 1, content: 'Friday or Monday?\n\nThe fair is on Wednesday.' });

test('a dive opens immediately; messages and choices wait for it', async () => {
  const { ws, backend } = scene;
  let open = () => undefined as void;
  backend.gate = new Promise((r) => (open = r));
  const then = vi.fn();
  const id = ws.forkActions.start(origin, then);
  expect(ws.forkActions.get(id)).toMatchObject({
    title: 'Friday or Monday?',
    status: 'active',
    message_count: 0,
  });
  expect(ws.fork(id)).toMatchObject({ status: 'ready', origin });
  ws.drafts.set(`d:${id}`, 'half a thou');
  ws.outgoing.send({ channel_id: 'chan_1', thread_id: null, fork_id: id, direct: false }, 'First!');
  const chosen = ws.forkActions.patch(id, { context: 'thread' });
  expect(ws.forkActions.get(id)!.context).toBe('thread');
  expect(ws.outbox.items).toMatchObject([{ content: 'First!', fork_id: id, status: 'sending' }]);
  open();
  await chosen;
  expect(then).toHaveBeenCalledWith('fork_new', id);
  expect(ws.forkActions.isStarting(id)).toBe(false);
  expect(ws.forkActions.keyOf('fork_new')).toBe(id);
  expect(ws.drafts.get('d:fork_new')).toBe('half a thou');
  await vi.waitFor(() => expect(ws.outbox.items).toEqual([]));
  expect(ws.fork('fork_new').messages.map((m) => m.content)).toEqual(['First!']);
  expect(backend.calls).toContain('PATCH /v1/forks/fork_new');
});
test('a dive is available under its new URL as soon as the server has created it, and still under its former one', async () => {
  const { ws } = scene;
  const seen: unknown[] = [];
  const id = ws.forkActions.start(origin, (real, from) => {
    seen.push(
      ws.forkActions.get(real)?.id,
      ws.forkActions.get(from)?.thread_id,
      ws.forkActions.isStarting(from),
    );
  });
  await vi.waitFor(() => expect(ws.forkActions.isStarting(id)).toBe(false));
  expect(seen).toEqual(['fork_new', 'thread_1', true]);
  expect(ws.forkActions.get(id)?.id).toBe('fork_new');
});
test('a file chosen while a dive is created goes along with its next message', async () => {
  const { ws } = scene;
  const then = vi.fn();
  const id = ws.forkActions.start(origin, then);
  await vi.waitFor(() => expect(then).toHaveBeenCalled());
  // The upload module was loaded in the meantime, and still has the composer's former key.
  const uploads = uploadsOf(ws, { show: () => undefined });
  uploads.add(`d:${id}`, [new File(['abc'], 'plan.txt')]);
  expect(uploads.in(`d:${id}`)).toEqual([]);
  expect(uploads.in('d:fork_new').map((u) => u.name)).toEqual(['plan.txt']);
});
test('a rejected start shows the reason, keeps the text, and can be retried', async () => {
  const { ws, backend } = scene;
  backend.fail = 409;
  backend.failure = { code: 'too_many_forks', message: 'x' };
  const then = vi.fn();
  const id = ws.forkActions.start(origin, then);
  ws.outgoing.send({ channel_id: 'chan_1', thread_id: null, fork_id: id, direct: false }, 'First!');
  await vi.waitFor(() => expect(ws.outbox.items[0]?.status).toBe('failed'));
  expect(ws.forkActions.problem(id)).toBe('This thread has 7 open dives. Resolve or abandon one first.');
  backend.fail = null;
  ws.forkActions.retry(id, then);
  ws.outbox.retry(ws.outbox.items[0]!.client_id);
  await vi.waitFor(() => expect(ws.outbox.items).toEqual([]));
  expect(then).toHaveBeenCalledTimes(1);
  const starts = backend.calls.flatMap((c, i) =>
    c === 'POST /v1/threads/thread_1/forks' ? [backend.bodies[i]] : [],
  );
  expect(starts[1]).toEqual(starts[0]); // the same client ID, so there are never two forks
});
test('a choice made after a failed start is part of the next attempt', async () => {
  const { ws, backend } = scene;
  backend.fail = 503;
  const then = vi.fn();
  const id = ws.forkActions.start(origin, then);
  await vi.waitFor(() => expect(ws.forkActions.problem(id)).toBe('No.'));
  await ws.forkActions.patch(id, { context: 'thread', agent_id: 'agent_coder' });
  backend.fail = null;
  ws.forkActions.retry(id, then);
  await vi.waitFor(() => expect(then).toHaveBeenCalled());
  const [, second] = backend.calls.flatMap((c, i) => (c.endsWith('/forks') ? [backend.bodies[i]] : []));
  expect(second).toMatchObject({ context: 'thread', agent_id: 'agent_coder' });
});
test('my message in a dive is confirmed by its event', async () => {
  const { ws } = scene;
  await forkState().load();
  ws.outgoing.send({ channel_id: 'chan_1', thread_id: null, fork_id: 'fork_1', direct: false }, 'Hm.');
  const { client_id } = ws.outbox.items[0]!;
  scene.event('message.created', { message: mine({ client_id, fork_id: 'fork_1' }) }, { fork_id: 'fork_1' });
  expect(ws.outbox.items).toEqual([]);
});

// --- from events ---

test('a mention in a dive does not count in its channel, and a result in which I took part does', () => {
  const { ws } = scene;
  const mentions = [{ type: 'user' as const, id: 'user_me', handle: 'mia', start: 0, length: 4 }];
  inFork({ mentions });
  scene.created({
    kind: 'resolution',
    metadata: { resolution_id: 'res_1', notify_user_ids: ['user_me'] },
  });
  scene.created({ kind: 'resolution', metadata: { resolution_id: 'res_2', notify_user_ids: [] } });
  expect(ws.channels.map.get('chan_1')).toMatchObject({ unread_count: 2, mention_count: 1 });
});
test('a result editor gets events until it unsubscribes', () => {
  const onOutcome = vi.fn();
  const stop = scene.ws.onOutcome(onOutcome);
  const resolution = { status: 'draft' } as Resolution;
  scene.event('resolution.drafted', { resolution });
  stop();
  scene.event('resolution.updated', { resolution });
  expect(onOutcome).toHaveBeenCalledTimes(1);
});
