import { expect, test } from 'vitest';
import type { EphemeralMessage } from '../api/events';
import { EphemeralMessages } from './ephemeral.svelte';

const message = (id: string, thread: string | null): EphemeralMessage => ({
  type: 'ephemeral',
  id,
  channel_id: 'chan_1',
  thread_id: thread,
  bot_id: 'bot_1',
  user_id: null,
  name: 'Deploy',
  shown_as: null,
  content: id,
  created_at: '2026-11-28T12:00:00Z',
});

test('messages stay in their thread or channel until they are dismissed', () => {
  const all = new EphemeralMessages();
  const [first, second] = [message('one', null), message('two', 'thread_1')];
  all.add(first);
  all.add(second);
  expect(all.in('chan_1')).toEqual([first]);
  expect(all.in('thread_1')).toEqual([second]);
  all.dismiss(first);
  expect(all.in('chan_1')).toEqual([]);
  expect(all.in('thread_1')).toEqual([second]);
});

test('a program cannot fill the screen', () => {
  const all = new EphemeralMessages();
  for (let n = 0; n < 20; n++) all.add(message(String(n), null));
  expect(all.in('chan_1').map((m) => m.id)).toEqual(['15', '16', '17', '18', '19']);
});
