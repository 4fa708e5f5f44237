import { afterEach, beforeEach, expect, test } from 'vitest';
import { mine, Scene } from '../test/backend';
import { fromAgent, thread } from '../test/make';
import type { ThreadState } from './thread.svelte';

const base = { thread_id: 'thread_1', message_id: 'msg_3' };
const variants = [{ thread_id: 'thread_v', message_id: 'msg_3' }];
let scene: Scene;
let v: ThreadState;
const shown = () => v.messages.map((m) => m.id);

beforeEach(async () => {
  scene = new Scene();
  await scene.ws.start();
  const { backend } = scene;
  const first = backend.threads.get('thread_1')!;
  backend.threads.set('thread_1', { ...first, last_seq: 4, variants } as never);
  const variant = thread({ id: 'thread_v', root_message_id: 'msg_5', last_seq: 6, variant_of: base });
  const own = { unread_count: 1, mention_count: 0, read_seq: 0, active_tasks: [] };
  backend.threads.set('thread_v', { ...variant, ...own, first_unread_id: 'msg_6', variants } as never);
  backend.messages = [
    mine({ seq: 1 }),
    fromAgent({ seq: 2 }),
    mine({ seq: 3 }),
    fromAgent({ seq: 4 }),
    mine({ seq: 5, thread_id: 'thread_v' }),
    fromAgent({ seq: 6, thread_id: 'thread_v' }),
  ];
  v = scene.ws.thread('thread_v');
  await v.load();
});
afterEach(() => scene.ws.stop());

test('a variant begins with messages of the first chat, but only its own count as unread', async () => {
  expect(shown()).toEqual(['msg_1', 'msg_2', 'msg_5', 'msg_6']);
  expect(v.reading.divider?.id).toBe('msg_6');
  expect(v.reading.next?.id).toBe('msg_6');
  await v.reading.seen([6]);
  expect(scene.backend.calls).toContain('PUT /v1/threads/thread_v/read');
});
test('the versions of a message are counted in each of them', async () => {
  const first = scene.ws.thread('thread_1');
  await first.load();
  expect(v.versions(v.messages[2]!)).toEqual(['thread_1', 'thread_v']);
  expect(v.versions(v.messages[0]!)).toEqual([]);
  expect(first.versions(first.messages[2]!)).toEqual(['thread_1', 'thread_v']);
  const made = thread({ id: 'thread_w', root_message_id: 'msg_9', variant_of: base });
  scene.event('thread.created', { thread: made }, { thread_id: 'thread_w' });
  for (const open of [v, first])
    expect(open.versions(open.messages[2]!)).toEqual(['thread_1', 'thread_v', 'thread_w']);
  scene.event('thread.deleted', { thread_id: 'thread_v', channel_id: 'chan_1' }, { thread_id: 'thread_v' });
  expect(first.versions(first.messages[2]!)).toEqual(['thread_1', 'thread_w']);
});
test('changes of the first chat reach its variants, new messages do not', () => {
  const changed = { ...v.messages[1]!, content: 'changed' };
  scene.event('message.updated', { message: changed });
  expect(v.messages[1]!.content).toBe('changed');
  scene.created();
  expect(shown()).toEqual(['msg_1', 'msg_2', 'msg_5', 'msg_6']);
});
