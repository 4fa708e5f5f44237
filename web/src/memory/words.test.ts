import { expect, test } from 'vitest';
import type { Memory } from '../api/memory';
import { channel, fromAgent, message } from '../test/make';
import { Scene, mine } from '../test/backend';
import { canChange, canPublish, copyOf, hiddenText, placesFor, placesOf, sentText, textOf } from './words';

async function scene() {
  const { ws } = new Scene();
  await ws.start();
  return ws;
}
const memory = (x: Partial<Memory> = {}): Memory => ({
  id: 'mem_1',
  object: 'memory',
  scope: 'user',
  kind: 'fact',
  text: 'Lives in Lisbon',
  agent_id: null,
  user_id: 'user_me',
  about_user_id: null,
  thread_id: null,
  fork_id: null,
  compaction_id: null,
  source_message_ids: [],
  visibility: 'workspace',
  channel_id: null,
  trust: 'person',
  origin: 'hand',
  status: 'active',
  superseded_by: null,
  share_with_organization: false,
  flagged: false,
  uses: 0,
  last_used_at: null,
  expires_at: null,
  version: 1,
  created_by: 'user_me',
  created_at: '2026-01-05T09:00:00.000Z',
  updated_at: '2026-01-05T09:00:00.000Z',
  ...x,
});
const keys = (places: { key: string }[]) => places.map((p) => p.key);

test('a message can be used here, everywhere if its channel is public, or for oneself', async () => {
  const ws = await scene();
  expect(keys(placesFor({ message: mine() }, 'fact', ws))).toEqual([
    'channel',
    'workspace',
    'user',
    'direct',
  ]);
  expect(placesFor({ message: mine() }, 'fact', ws)[0]?.label).toBe('This thread');
  ws.channels.put(channel({ id: 'chan_1', kind: 'private' }));
  expect(keys(placesFor({ message: mine() }, 'fact', ws))).toEqual(['channel', 'user', 'direct']);
  expect(keys(placesFor({ message: mine() }, 'fact', ws, false))).toEqual(['channel']);
});
test('kinds about people reach no other conversation, and agents say nothing about people', async () => {
  const ws = await scene();
  expect(keys(placesFor({ message: message() }, 'preference', ws))).toEqual(['channel', 'user', 'direct']);
  expect(placesFor({ message: message() }, 'person', ws)[0]?.hint).toBe('In this thread');
  expect(keys(placesFor({ message: fromAgent() }, 'fact', ws))).toEqual(['channel', 'workspace']);
});
test('an entry about oneself is for all agents or for a single one', async () => {
  const ws = await scene();
  const [all, own, single] = placesFor('me', 'fact', ws);
  expect(all?.form).toEqual({ scope: 'user' });
  expect(all?.hint).toBe('Agents may repeat this wherever you ask them.');
  expect([own?.label, own?.form]).toEqual([
    'Me, only in my own chats with agents',
    { scope: 'user', visibility: 'direct' },
  ]);
  expect(single?.form.scope).toBe('persona');
});
test('entries of conversations and personal ones have a place to change', async () => {
  const ws = await scene();
  const shared = memory({ scope: 'conversation', thread_id: 'thread_1', user_id: null });
  expect(keys(placesOf(shared, 'fact', ws))).toEqual(['channel', 'workspace']);
  expect(placesOf(memory(), 'fact', ws).map((p) => p.form)).toEqual([
    { visibility: 'workspace' },
    { visibility: 'direct' },
  ]);
  const closed = memory({ visibility: 'direct', source_message_ids: ['msg_1'] });
  expect(keys(placesOf(closed, 'fact', ws))).toEqual(['channel', 'direct']);
  expect(placesOf(memory({ scope: 'agent' }), 'fact', ws)).toEqual([]);
});
test('rights follow the scope', async () => {
  const ws = await scene();
  expect(canChange(memory(), ws)).toBe(true);
  expect(canChange(memory({ user_id: 'user_bo' }), ws)).toBe(false);
  expect(canChange(memory({ scope: 'organization' }), ws)).toBe(ws.people.isAdmin);
  expect(canChange(memory({ scope: 'agent', origin: 'file' }), ws)).toBe(false);
  ws.people.me = { ...ws.people.me, role: 'admin' };
  const offered = memory({ scope: 'conversation', share_with_organization: true });
  expect(canPublish(offered, ws)).toBe(true);
  for (const x of [
    { share_with_organization: false },
    { kind: 'preference' },
    { trust: 'agent' },
    { status: 'stale' },
  ] as Partial<Memory>[])
    expect(canPublish({ ...offered, ...x }, ws), JSON.stringify(x)).toBe(false);
});
test('a copy has no fields that are null', () => {
  expect(copyOf(memory({ source_message_ids: ['msg_1'] }))).toEqual({
    text: 'Lives in Lisbon',
    kind: 'fact',
    scope: 'user',
    visibility: 'workspace',
    source_message_ids: ['msg_1'],
  });
});
test('texts are shown without the marks of a prompt, and cut at the limit', () => {
  expect(sentText('- (fact, Ada (ops), 2026-11-20) Pier (4711) opens')).toBe('Pier (4711) opens');
  expect(sentText('- (note, 2026-11-20) Plain')).toBe('Plain');
  expect(hiddenText({ name: 'Ada', count: 2 })).toBe('(2 personal memories of Ada are hidden)');
  expect([...textOf(message({ content_plain: '😀 '.repeat(600) }))]).toHaveLength(1000);
});
