import { expect, test } from 'vitest';
import { currentPath, parsePlace, to } from './router.svelte';

const at = (path: string) => parsePlace(new URL(path, 'http://x'));

test.each([
  ['/', { name: 'home' }],
  ['/setup?setup_token=x', { name: 'setup' }],
  ['/new', { name: 'new-workspace' }],
  ['/share?text=Look', { name: 'share-target' }],
  ['/northwind/share?text=Look', { name: 'share', slug: 'northwind' }],
  ['/invite/abc', { name: 'invite', token: 'abc' }],
  ['/northwind', { name: 'workspace', slug: 'northwind' }],
  ['/northwind/c/general', { name: 'channel', slug: 'northwind', channel: 'general' }],
  [
    '/northwind/c/general/t/thread_1',
    { name: 'thread', slug: 'northwind', channel: 'general', thread: 'thread_1' },
  ],
  ['/northwind/actions', { name: 'actions', slug: 'northwind' }],
  ['/northwind/decisions', { name: 'decisions', slug: 'northwind' }],
  ['/northwind/search', { name: 'search', slug: 'northwind' }],
  ['/northwind/automation/schedules', { name: 'schedules', slug: 'northwind' }],
  ['/northwind/automation/history', { name: 'runs', slug: 'northwind' }],
  ['/northwind/automation/history/run_1', { name: 'runs', slug: 'northwind', id: 'run_1' }],
  ['/northwind/automation/history/run_1/steps', { name: 'missing' }],
  ['/northwind/automation', { name: 'workflows', slug: 'northwind' }],
  ['/northwind/automation/workflows/flow_1', { name: 'workflows', slug: 'northwind', id: 'flow_1' }],
  ['/northwind/automation/workflows/flow_1/more', { name: 'missing' }],
  ['/northwind/actions/mine', { name: 'missing' }],
  ['/northwind/m/msg_1', { name: 'm', slug: 'northwind', id: 'msg_1' }],
  ['/northwind/m/msg_1/more', { name: 'missing' }],
  ['/northwind/settings/members', { name: 'settings', slug: 'northwind', page: 'members' }],
  ['/northwind/settings', { name: 'settings', slug: 'northwind', page: null }],
  ['/northwind/settings/agents', { name: 'settings', slug: 'northwind', page: 'agents' }],
  [
    '/northwind/settings/agents/new?template=researcher',
    { name: 'agent', slug: 'northwind', agent: 'new', tab: 'about' },
  ],
  [
    '/northwind/settings/agents/agent_1',
    { name: 'agent', slug: 'northwind', agent: 'agent_1', tab: 'about' },
  ],
  [
    '/northwind/settings/agents/agent_1/try',
    { name: 'agent', slug: 'northwind', agent: 'agent_1', tab: 'try' },
  ],
  ['/northwind/settings/agents/agent_1/nowhere', { name: 'missing' }],
  ['/northwind/settings/agents/agent_1/edit/more', { name: 'missing' }],
  ['/northwind/settings/agents/new/edit', { name: 'missing' }],
  ['/northwind/c', { name: 'missing' }],
  ['/%E0%A4%A', { name: 'missing' }],
])('%s', (path, route) => expect(at(path).route).toEqual(route));

test.each([
  ['/northwind/workflows', '/northwind/automation/workflows'],
  ['/northwind/workflows/flow_1', '/northwind/automation/workflows/flow_1'],
  ['/northwind/schedules', '/northwind/automation/schedules'],
  ['/northwind/runs', '/northwind/automation/history'],
  ['/northwind/runs/run_1', '/northwind/automation/history/run_1'],
  ['/northwind/runsheet', '/northwind/runsheet'],
  ['/northwind/c/workflows', '/northwind/c/workflows'],
])('the address %s is now %s', (former, now) => expect(currentPath(former)).toBe(now));

test('the panel is in the query, the message in the fragment', () => {
  expect(at('/n/c/g/t/x?panel=task:task_1#m-msg_1')).toMatchObject({
    panel: { kind: 'task', id: 'task_1' },
    message: 'msg_1',
  });
  expect(at('/n/c/g?panel=task').panel).toBeNull();
  expect(at('/n/c/g?panel=other:x').panel).toBeNull();
});
test('a file is a panel, with its part and the passage that is marked', () => {
  const file = { kind: 'file', id: 'file_1', part: 12, range: '' };
  expect(at('/n/c/g?panel=file:file_1:12').panel).toEqual(file);
  expect(at('/n/c/g?panel=file:file_1').panel).toEqual({ ...file, part: null });
  expect(at('/n/search?panel=file:file_1:12:0-80').panel).toEqual({ ...file, range: '0-80' });
});
test('a dive is a panel, also while it is resolved, and can replace the main column', () => {
  const panel = { kind: 'dive', id: 'fork_1', resolve: false };
  expect(at('/n/c/g/t/x?panel=dive:fork_1')).toMatchObject({ panel: panel, focus: null });
  expect(at('/n/c/g/t/x?panel=dive:fork_1:resolve').panel).toEqual({ ...panel, resolve: true });
  expect(at('/n/c/g/t/x?panel=dive:fork_1&focus=1').focus).toEqual({ beside: null });
  expect(at('/n/c/g/t/x?panel=dive:fork_1&focus=fork_2').focus).toEqual({ beside: 'fork_2' });
  expect(at('/n/c/g/t/x?panel=task:task_1&focus=1').focus).toBeNull();
  expect(at(to.fork('n', 'g', 'x', 'fork_1'))).toMatchObject({ panel: panel });
});
test('channel names in other scripts survive a round trip through a URL', () => {
  const path = to.channel('n', 'größe-日本');
  expect(at(path).route).toMatchObject({ channel: 'größe-日本' });
});
test('a link to a message of a dive opens the dive', () => {
  const place = at(to.fork('n', 'g', 'x', 'fork_1', 'msg_2'));
  expect(place).toMatchObject({ panel: { kind: 'dive', id: 'fork_1' }, message: null, forkMessage: 'msg_2' });
});
test('agent URLs survive a round trip', () => {
  expect(at(to.agent('n', 'agent_1')).route).toMatchObject({ agent: 'agent_1', tab: 'about' });
  expect(at(to.agent('n', 'agent_1', 'history')).route).toMatchObject({ tab: 'history' });
  const made = at(to.newAgent('n', 'code-reviewer'));
  expect(made.route).toMatchObject({ agent: 'new' });
  expect(made.query.get('template')).toBe('code-reviewer');
});
