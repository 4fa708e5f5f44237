import { expect, test } from 'vitest';
import type { ServerEvent } from '../api/events';
import { inboxItem } from '../test/inbox';
import { channel, message, snapshot, thread } from '../test/make';
import { CONVERSATIONS_MAX, ITEMS_MAX, MESSAGES_MAX, Mirror } from './mirror';

const made = (loadThread = () => Promise.reject<ReturnType<typeof thread>>(new Error('offline'))) =>
  new Mirror({ myId: 'user_me', loadThread });
const event = (type: ServerEvent['type'], seq: number, data: unknown, more: object = {}) =>
  ({ type, seq, channel_id: 'chan_1', thread_id: 'thread_1', fork_id: null, data, ...more }) as ServerEvent;
const created = (seq: number, x: object = {}) =>
  event('message.created', seq, { message: message({ seq, ...x }) });
const texts = (mirror: Mirror, id = 'thread_1') =>
  mirror.conversations.get(id)?.messages.map((m) => m.content);
const opened = (id: string, seqs: number[], hasOlder = false) => ({
  id,
  channel_id: 'chan_1',
  messages: seqs.map((seq) => message({ seq, thread_id: id })),
  hasOlder,
});

test('events change a conversation that is closed', () => {
  const mirror = made();
  mirror.learn(opened('thread_1', [1, 2]));
  mirror.apply(created(3));
  mirror.apply(created(3)); // the same event, from another window that is ahead
  mirror.apply(event('message.updated', 4, { message: message({ seq: 1, content: 'edited' }) }));
  mirror.apply(event('reaction.added', 5, { message_id: 'msg_2', reactions: [{ emoji: '👍' }] }));
  mirror.apply(event('message.created', 6, { message: message({ seq: 6, thread_id: 'thread_2' }) }));
  expect(texts(mirror)).toEqual(['edited', 'message 2', 'message 3']);
  expect(mirror.conversations.get('thread_1')!.messages[1]!.reactions).toHaveLength(1);
  expect(mirror.conversations.size).toBe(1);
});
test('the newest 200 messages of the 20 conversations that were opened last are kept', () => {
  const mirror = made();
  const many = Array.from({ length: MESSAGES_MAX + 10 }, (_, i) => i + 1);
  for (let n = 0; n <= CONVERSATIONS_MAX; n++) mirror.learn(opened(`thread_${n}`, n ? [n] : many));
  mirror.learn(opened('thread_1', [1]));
  expect(mirror.conversations.has('thread_0')).toBe(false);
  expect(mirror.conversations.size).toBe(CONVERSATIONS_MAX);
  expect([...mirror.conversations.keys()].at(-1)).toBe('thread_1');
  expect(mirror.takeChanges().removed).toEqual(['thread_0']);
  mirror.learn(opened('thread_9', many));
  const long = mirror.conversations.get('thread_9')!;
  expect([long.messages.length, long.messages[0]!.seq, long.hasOlder]).toEqual([MESSAGES_MAX, 11, true]);
});
test('older messages stay if the open ones follow them, and go if there is a gap', () => {
  const mirror = made();
  mirror.learn(opened('thread_1', [1, 2, 3]));
  mirror.learn(opened('thread_1', [3, 4], true));
  expect(mirror.conversations.get('thread_1')).toMatchObject({ hasOlder: false });
  expect(texts(mirror)).toEqual([1, 2, 3, 4].map((n) => `message ${n}`));
  mirror.learn(opened('thread_1', [8, 9], true));
  expect(texts(mirror)).toEqual(['message 8', 'message 9']);
});
test('only what changed is written', () => {
  const mirror = made();
  mirror.learn(opened('thread_1', [1]));
  mirror.learn(opened('thread_2', [2]));
  expect(mirror.takeChanges().changed.map((c) => c.id)).toEqual(['thread_1', 'thread_2']);
  mirror.learn({ ...mirror.conversations.get('thread_1')! });
  mirror.apply(created(3, { thread_id: 'thread_2' }));
  expect(mirror.takeChanges().changed.map((c) => c.id)).toEqual(['thread_2']);
});
test('conversations that were opened first go until everything fits', () => {
  const mirror = made();
  for (const id of ['thread_1', 'thread_2', 'thread_3']) mirror.learn(opened(id, [1, 2, 3]));
  const one = JSON.stringify(mirror.conversations.get('thread_1')).length * 2;
  expect(mirror.fit('', one * 2 + 100)).toBe(true);
  expect([...mirror.conversations.keys()]).toEqual(['thread_2', 'thread_3']);
  expect(mirror.fit('x'.repeat(1000), 1000)).toBe(false);
});
test('a thread that moves up in a list is loaded, and a list with a gap is dropped', async () => {
  const far = thread({ id: 'thread_far', last_seq: 9 });
  const online = made(() => Promise.resolve(far));
  online.learnList({ channel_id: 'chan_1', threads: [] });
  online.apply(event('message.created', 9, { message: message({ seq: 9, thread_id: 'thread_far' }) }));
  await Promise.resolve();
  expect(online.listed('chan_1').map((t) => t.id)).toEqual(['thread_far']);
  const offline = made();
  offline.learnList({ channel_id: 'chan_1', threads: [] });
  offline.apply(event('message.created', 9, { message: message({ seq: 9, thread_id: 'thread_far' }) }));
  await Promise.resolve();
  await Promise.resolve();
  expect(offline.lists.size).toBe(0);
});
test('channels whose events do not arrive are not kept', () => {
  const mirror = made();
  mirror.learn(opened('thread_1', [1]));
  mirror.learn({ ...opened('thread_2', [2]), channel_id: 'chan_2' });
  mirror.learnList({ channel_id: 'chan_2', threads: [] });
  mirror.keepOnly((channel) => channel === 'chan_1');
  expect([[...mirror.conversations.keys()], mirror.lists.size]).toEqual([['thread_1'], 0]);
});
test('a channel into which messages were imported is not kept', () => {
  const mirror = made();
  mirror.learn(opened('thread_1', [1]));
  mirror.learn({ ...opened('thread_2', [2]), channel_id: 'chan_2' });
  mirror.learnList({ channel_id: 'chan_2', threads: [] });
  mirror.apply(event('channel.imported', 3, { channel_id: 'chan_2' }));
  expect([[...mirror.conversations.keys()], mirror.lists.size]).toEqual([['thread_1'], 0]);
});
test('at most 200 items, the newest ones; after a gap they are read again', () => {
  const mirror = made();
  mirror.learnItems({ data: [inboxItem()], resync: false });
  expect(mirror.items).toBeNull(); // an incomplete list
  mirror.items = new Map();
  const data = Array.from({ length: ITEMS_MAX + 5 }, (_, i) => inboxItem({ seq: i + 1 }));
  mirror.learnItems({ data, resync: false });
  expect(mirror.items.size).toBe(ITEMS_MAX);
  expect(mirror.items.has('inbox_5')).toBe(false);
  mirror.learnItems({ data: [], resync: true });
  expect(mirror.items).toBeNull();
});
test('a list keeps its newest threads, also if it is not open', () => {
  const mirror = made();
  mirror.learnList({ channel_id: 'chan_1', threads: [] });
  for (let n = 1; n <= 40; n++)
    mirror.apply(event('thread.created', n, { thread: thread({ id: `thread_${n}`, last_seq: n }) }));
  const [list] = mirror.storedLists();
  expect([list!.threads.length, list!.threads[0]]).toEqual([30, 'thread_40']);
  expect(mirror.storedThreads()).toHaveLength(30);
});
test('a copy is the same after it was stored', () => {
  const mirror = made();
  mirror.learn(opened('thread_1', [1, 2], true));
  mirror.learnList({ channel_id: 'chan_1', threads: ['thread_1'] });
  mirror.threads.put(thread({ last_seq: 2 }));
  const again = made();
  again.load({
    state: {
      snapshot: snapshot(),
      exact: 1,
      at: 1,
      order: [...mirror.conversations.keys()],
      lists: mirror.storedLists(),
      threads: mirror.storedThreads(),
      forks: [],
      items: null,
    },
    conversations: mirror.takeChanges().changed,
  });
  expect([...again.conversations]).toEqual([...mirror.conversations]);
  expect(again.storedLists()).toEqual(mirror.storedLists());
  expect(again.listed('chan_1')).toHaveLength(1);
});
test('a deleted thread is removed from the copy with its dives', () => {
  const mirror = made();
  mirror.learn(opened('thread_1', [1]));
  mirror.learn({ ...opened('thread_1', [2]), id: 'fork_1' });
  mirror.learn(opened('thread_2', [3]));
  mirror.apply(event('thread.deleted', 4, { thread_id: 'thread_1', channel_id: 'chan_1' }));
  expect([...mirror.conversations.keys()]).toEqual(['thread_2']);
  expect(mirror.takeChanges().removed).toEqual(['thread_1', 'fork_1']);
});
test('items go with their message, thread, or channel, and close when they are read', () => {
  const mirror = made();
  const items = [1, 2, 3, 4, 5].map((seq) =>
    inboxItem({ seq, reason: seq === 4 ? 'group' : 'mention', channel_id: seq === 3 ? 'chan_2' : 'chan_1' }),
  );
  mirror.items = new Map(items.map((i) => [i.id, i]));
  mirror.apply(event('message.deleted', 6, { message: message({ seq: 1 }) }));
  mirror.apply(event('thread.deleted', 7, { thread_id: 'thread_2', channel_id: 'chan_1' }));
  mirror.apply(
    event('channel.member_removed', 8, { channel: channel({ id: 'chan_2' }), user_id: 'user_me' }),
  );
  mirror.readItems({ thread: 'thread_4' }, 4);
  mirror.readItems({ thread: 'thread_5' }, 4); // the item is newer
  expect([...mirror.items.values()].map(({ seq, state, unread }) => [seq, state, unread])).toEqual([
    [4, 'done', false],
    [5, 'open', true],
  ]);
  const reply = inboxItem({ seq: 9, reason: 'reply', state: 'done' });
  mirror.learnItems({ data: [reply], resync: false });
  expect(mirror.items.has(reply.id)).toBe(false);
});
test('conversations of a channel that the user left are dropped', () => {
  const mirror = made();
  mirror.learn(opened('thread_1', [1]));
  mirror.learnList({ channel_id: 'chan_1', threads: ['thread_1'] });
  mirror.apply(
    event('channel.member_removed', 2, { channel: channel({ id: 'chan_1' }), user_id: 'user_bo' }),
  );
  expect(mirror.conversations.size).toBe(1);
  mirror.apply(
    event('channel.member_removed', 3, { channel: channel({ id: 'chan_1' }), user_id: 'user_me' }),
  );
  expect([mirror.conversations.size, mirror.lists.size]).toEqual([0, 0]);
  expect(mirror.takeChanges()).toMatchObject({ removed: ['thread_1'], isComplete: false });
  mirror.touchAll();
  expect([mirror.takeChanges().isComplete, mirror.takeChanges().isComplete]).toEqual([true, false]);
});
