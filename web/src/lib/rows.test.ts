import { expect, test } from 'vitest';
import { AT, fromAgent, message, task } from '../test/make';
import { buildRows, movedAtStart, type RowsInput, type Unsent } from './rows';

const me = { id: 'user_me', name: 'Mia', avatar_url: null };
const rows = (x: Partial<RowsInput>) =>
  buildRows({ messages: [], tasks: [], unsent: [], unreadFrom: null, atEnd: true, me, ...x });
const unsent = (client_id: string): Unsent => ({
  client_id,
  content: 'hi',
  created_at: AT,
  status: 'sending',
  error: null,
});
const human = (seq: number, at = AT, author = 'user_bo') =>
  message({ seq, created_at: at, author: { type: 'human', id: author, name: 'Bo', avatar_url: null } });

test('my message keeps its key when the echo replaces it', () => {
  const before = rows({ unsent: [unsent('c1')] });
  const echo = message({ author: { type: 'human', ...me }, client_id: 'c1' });
  const after = rows({ messages: [echo], unsent: [] });
  expect(before[0]!.key).toBe(after[0]!.key);
});
test('a message is never shown twice while both copies are present', () => {
  const echo = message({ author: { type: 'human', ...me }, client_id: 'c1' });
  expect(rows({ messages: [echo], unsent: [unsent('c1')] })).toHaveLength(1);
});
test('a pending reply reserves its row, and its message takes it', () => {
  const before = rows({ messages: [human(1)], tasks: [task({ status: 'running' })] });
  expect(before[1]).toMatchObject({ kind: 'task', key: 'task_1' });
  const reply = fromAgent({ seq: 2, state: 'streaming', metadata: { task_id: 'task_1' } });
  const after = rows({ messages: [human(1), reply], tasks: [task({ status: 'running' })] });
  expect(after).toHaveLength(2);
  expect(after[1]).toMatchObject({ kind: 'message', key: 'task_1' });
});
test('each message of a run has its own key', () => {
  const posted = (seq: number) => fromAgent({ seq, metadata: { task_id: 'task_1', run_id: 'run_1' } });
  expect(rows({ messages: [posted(1), posted(2)] }).map((r) => r.key)).toEqual(['msg_1', 'msg_2']);
});
test('a reply stopped before its first word stays below its trigger message until it is retried', () => {
  const input = {
    messages: [human(1), human(2)],
    tasks: [task({ status: 'cancelled' as const, trigger_message_id: 'msg_1' })],
  };
  expect(rows(input).map((r) => r.kind)).toEqual(['message', 'task', 'message']);
  const retried = [...input.tasks, task({ id: 'task_2', status: 'running', retry_of: 'task_1' })];
  expect(rows({ ...input, tasks: retried }).map((r) => r.key)).toEqual(['msg_1', 'msg_2', 'task_2']);
});
test('consecutive messages of one person are grouped for five minutes', () => {
  const list = [
    human(1),
    human(2, '2026-01-05T09:04:00.000Z'),
    human(3, '2026-01-05T09:20:00.000Z'),
    human(4, '2026-01-05T09:21:00.000Z', 'user_cy'),
  ];
  expect(rows({ messages: list }).map((r) => r.kind === 'message' && r.follows)).toEqual([
    false,
    true,
    false,
    false,
  ]);
});
test('the line between summarized and sent messages ends a group', () => {
  const list = [human(1), human(2)];
  const follows = (below?: string) =>
    rows({ messages: list, below }).map((r) => r.kind === 'message' && r.follows);
  expect(follows()).toEqual([false, true]);
  expect(follows('msg_2')).toEqual([false, false]);
});
test('the unread rule ends a group', () => {
  const list = [human(1), human(2)];
  expect(rows({ messages: list, unreadFrom: 'msg_2' })[1]).toMatchObject({ isNew: true, follows: false });
});
test('a day is named once', () => {
  const list = [human(1), human(2), human(3, '2026-01-06T12:00:00.000Z')];
  expect(rows({ messages: list }).map((r) => r.day !== null)).toEqual([true, false, true]);
});
test('a person’s deleted message leaves a tombstone, a retried part of a reply disappears', () => {
  const gone = human(1);
  const part = fromAgent({ seq: 2, deleted_at: AT });
  expect(rows({ messages: [{ ...gone, deleted_at: AT }, part] })).toHaveLength(1);
});
test('nothing is appended while the end is not loaded', () => {
  expect(
    rows({ messages: [human(1)], tasks: [task({ status: 'queued' })], unsent: [unsent('c1')], atEnd: false }),
  ).toHaveLength(1);
});
test('rows added at the start keep the position from the end, rows added at the end do not', () => {
  const [a, b, c] = [human(1), human(2), human(3)].map((m) => rows({ messages: [m] })[0]!);
  expect(movedAtStart([b!, c!], [a!, b!, c!])).toBe(true);
  expect(movedAtStart([a!, b!, c!], [b!, c!])).toBe(true);
  expect(movedAtStart([a!, b!], [a!, b!, c!])).toBe(false);
  expect(movedAtStart([], [a!])).toBe(false);
});

test('a reply names its trigger message unless that is directly above', () => {
  const reply = (seq: number, parent: string, more = {}) =>
    fromAgent({ seq, id: `msg_${seq}`, parent_id: parent, ...more });
  const list = [human(1), human(2), reply(3, 'msg_1'), reply(4, 'msg_2')];
  const named = rows({ messages: list }).map((r) => r.replyTo?.id ?? null);
  expect(named).toEqual([null, null, 'msg_1', 'msg_2']);
  expect(rows({ messages: [human(1), reply(2, 'msg_1')] })[1]!.replyTo).toBeNull();
  const waiting = task({ status: 'queued', trigger_message_id: 'msg_1' });
  expect(rows({ messages: [human(1), human(2)], tasks: [waiting] })[2]!.replyTo?.id).toBe('msg_1');
});
test('a failure notice is settled once its trigger message gets a reply', () => {
  const notice = message({
    id: 'msg_2',
    seq: 2,
    kind: 'notice',
    author: { type: 'system', id: null, name: 'System', avatar_url: null },
    parent_id: 'msg_1',
  });
  const answer = (parent: string) => fromAgent({ id: 'msg_3', seq: 3, parent_id: parent });
  const settled = (list: Parameters<typeof rows>[0]['messages']) => {
    const row = rows({ messages: list })[1]!;
    return row.kind === 'message' && row.settled;
  };
  expect(settled([human(1), notice])).toBe(false);
  expect(settled([human(1), notice, answer('msg_9')])).toBe(false);
  expect(settled([human(1), notice, answer('msg_1')])).toBe(true);
});
test('a notice without a trigger message is not settled by a post without one', () => {
  const notice = message({
    id: 'msg_2',
    seq: 2,
    kind: 'notice',
    author: { type: 'system', id: null, name: 'System', avatar_url: null },
  });
  const row = rows({ messages: [human(1), notice, fromAgent({ id: 'msg_3', seq: 3 })] })[1]!;
  expect(row.kind === 'message' && row.settled).toBe(false);
});
test('the reply of another agent does not settle a failure notice', () => {
  const failed = task({ status: 'failed', trigger_message_id: 'msg_1', agent_id: 'agent_coder' });
  const notice = message({
    id: 'msg_2',
    seq: 2,
    kind: 'notice',
    author: { type: 'system', id: null, name: 'System', avatar_url: null },
    parent_id: 'msg_1',
    metadata: { task_id: failed.id },
  });
  const by = (agent: string) => {
    const reply = fromAgent({ id: 'msg_3', seq: 3, parent_id: 'msg_1' });
    const author = { ...reply.author, id: agent };
    const row = rows({ messages: [human(1), notice, { ...reply, author }], tasks: [failed] })[1]!;
    return row.kind === 'message' && row.settled;
  };
  expect(by('agent_vibe')).toBe(false);
  expect(by('agent_coder')).toBe(true);
});
