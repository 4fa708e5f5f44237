import { expect, test } from 'vitest';
import { message, thread } from '../test/make';
import { canRunAgain, oncePerChat } from './thread-actions';

const base = { thread_id: 'thread_1', message_id: 'msg_3' };

test('in a variant, only the first message can be run again', () => {
  const chat = thread();
  const variant = thread({ id: 'thread_v', root_message_id: 'msg_5', variant_of: base });
  expect(canRunAgain(message({ seq: 3 }), chat)).toBe(true);
  expect(canRunAgain(message({ seq: 5 }), variant)).toBe(true);
  expect(canRunAgain(message({ seq: 7 }), variant)).toBe(false);
  expect(canRunAgain(message({ seq: 3, fork_id: 'fork_1' }), chat)).toBe(false);
  expect(canRunAgain(message({ seq: 3, deleted_at: '2026-01-05T09:00:00.000Z' }), chat)).toBe(false);
  expect(canRunAgain(message({ seq: 3, kind: 'notice' }), chat)).toBe(false);
});

test('a chat and its variants are one entry: an unread one, or else the latest', () => {
  const all = [
    thread({ id: 'thread_w', variant_of: base }),
    thread({ id: 'thread_2' }),
    thread({ id: 'thread_1' }),
    thread({ id: 'thread_v', variant_of: base }),
  ];
  expect(oncePerChat(all).map((t) => t.id)).toEqual(['thread_w', 'thread_2']);
  const unread = all.map((t) => (t.id === 'thread_v' ? { ...t, unread_count: 1 } : t));
  expect(oncePerChat(unread).map((t) => t.id)).toEqual(['thread_v', 'thread_2']);
});
