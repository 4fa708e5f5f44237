import { expect, test } from 'vitest';
import { parsePlace, to } from './router.svelte';

const at = (path: string) => parsePlace(new URL(path, 'http://x'));

test.each([
  ['/', { name: 'home' }],
  ['/setup?setup_token=x', { name: 'setup' }],
  ['/new', { name: 'new-workspace' }],
  ['/invite/abc', { name: 'invite', token: 'abc' }],
  ['/northwind', { name: 'workspace', slug: 'northwind' }],
  ['/northwind/c/general', { name: 'channel', slug: 'northwind', channel: 'general' }],
  [
    '/northwind/c/general/t/thread_1',
    { name: 'thread', slug: 'northwind', channel: 'general', thread: 'thread_1' },
  ],
  ['/northwind/settings', { name: 'settings', slug: 'northwind', page: 'profile' }],
  ['/northwind/settings/members', { name: 'settings', slug: 'northwind', page: 'members' }],
  ['/northwind/settings/nowhere', { name: 'missing' }],
  ['/northwind/c', { name: 'missing' }],
  ['/%E0%A4%A', { name: 'missing' }],
])('%s', (path, route) => expect(at(path).route).toEqual(route));

test('the panel is in the query, the message in the fragment', () => {
  expect(at('/n/c/g/t/x?panel=task:task_1#m-msg_1')).toMatchObject({
    panel: { kind: 'task', id: 'task_1' },
    message: 'msg_1',
  });
  expect(at('/n/c/g?panel=dive:x').panel).toBeNull();
  expect(at('/n/c/g?panel=task').panel).toBeNull();
});
test('channel names of other scripts survive the way into an address and back', () => {
  const path = to.channel('n', 'größe-日本');
  expect(at(path).route).toMatchObject({ channel: 'größe-日本' });
});
