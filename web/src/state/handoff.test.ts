import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Bot } from '../api/bots';
import type { Router } from '../lib/router.svelte';
import { parseSlash } from '../lib/slash';
import { UNBOUND } from '../lib/responder';
import { Scene, type Backend } from '../test/backend';
import { agent, AT, channel, thread } from '../test/make';
import { Completion, NOBODY } from './composer.svelte';
import { handTo, moveOn } from './handoff';
import { choose, runSlash } from './slashes';
import { presetOf, setPreset, responderOf, type ComposerContext } from './composer-context';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

let scene: Scene;
let backend: Backend;
let ws: WorkspaceState;
let shown: string[];
let went: string[];
let deps: { ws: WorkspaceState; ui: Ui; router: Router; focus: () => void };
const conversation = { thread: 'thread_1', fork: null };
const vibe = () => ws.people.agentsById.get('agent_vibe')!;
const coder = () => ws.people.agentsById.get('agent_coder')!;
/** Recorded change requests. */
const changes = () =>
  backend.calls.map((c, i) => [c, backend.bodies[i]] as const).filter(([c]) => !c.startsWith('GET'));
const bodies = () => changes().map(([, body]) => body);

beforeEach(async () => {
  scene = new Scene();
  ({ backend, ws } = scene);
  backend.snapshot = {
    ...backend.snapshot,
    workspace: { ...backend.snapshot.workspace, default_agent_id: 'agent_vibe' },
  };
  await ws.start();
  const bound = thread({ agent_id: 'agent_coder', agent_version: 1, auto_reply: true });
  backend.threads.set(bound.id, bound);
  ws.learnThread(bound);
  shown = [];
  went = [];
  const place = { path: '/northwind/c/general/t/thread_1' };
  deps = {
    ws,
    ui: { announce: (s: string) => shown.push(s), show: (s: string) => shown.push(s) } as unknown as Ui,
    focus: () => void went.push('focus'),
    router: { place, go: (path: string) => void went.push(path) } as unknown as Router,
  };
});
afterEach(() => ws.stop());

const inThread = (): ComposerContext => ({
  channel: channel(),
  conversation,
  responder: responderOf(ws.threads.map.get('thread_1')!, ws),
});
const inChannel = (): ComposerContext => ({
  channel: channel(),
  conversation: null,
  responder: responderOf(UNBOUND, ws),
});
const type = (text: string, context: ComposerContext) => runSlash(parseSlash(text)!, context, deps);

test('a handoff shows the new responder immediately', async () => {
  expect(await handTo(vibe(), conversation, deps)).toBe(true);
  expect(changes()).toEqual([['PATCH /v1/threads/thread_1', { agent_id: 'agent_vibe' }]]);
  expect(ws.threads.map.get('thread_1')?.agent_id).toBe('agent_vibe');
});
test('a handoff by others arrives with its notice and is shown', () => {
  const t = ws.threads.map.get('thread_1')!;
  scene.created({ kind: 'notice', author: { type: 'system', id: null, name: 'OpenVibe', avatar_url: null } });
  scene.event('thread.updated', { thread: { ...t, agent_id: 'agent_vibe' } });
  expect(ws.threads.map.get('thread_1')).toMatchObject({ agent_id: 'agent_vibe', reply_count: 0 });
});
test('a rejection is reported and nothing changes', async () => {
  backend.fail = 404;
  expect(await handTo(vibe(), conversation, deps)).toBe(false);
  expect(shown).toEqual(['No.']);
  expect(ws.threads.map.get('thread_1')?.agent_id).toBe('agent_coder');
});
test('switching to the newest version leaves auto-reply unchanged', async () => {
  ws.people.agentsById.set('agent_coder', { ...coder(), version: 3 });
  await moveOn(inThread().responder, conversation, deps);
  ws.learnThread(thread({ agent_id: 'agent_coder', agent_version: 1, auto_reply: false }));
  await moveOn(inThread().responder, conversation, deps);
  expect(bodies()).toEqual([{ agent_id: 'agent_coder' }, { agent_id: 'agent_coder', auto_reply: false }]);
});

test.each([
  ['/agent vibe', 'agent_vibe'],
  ['/agent Vibe', 'agent_vibe'],
  ['/agent @vibe', 'agent_vibe'],
  ['/agent none', null],
])('%s rebinds the thread', async (text, agent_id) => {
  expect(await type(text, inThread())).toBe(true);
  expect(bodies()).toEqual([{ agent_id }]);
});
test.each(['/agent', '/agent vi', '/agent vibe, please look', '/'])(
  '%s does nothing and keeps its text',
  async (text) => {
    expect(await type(text, inThread())).toBe(false);
    expect(changes()).toEqual([]);
  },
);
test('binding the same agent again sends no request', async () => {
  expect(await choose(coder(), inThread(), deps)).toBe(true);
  expect(changes()).toEqual([]);
  expect(shown).toEqual(['Coder already replies here']);
});

test('/new with text starts a thread with the agent of this one', async () => {
  expect(await type('/new The chairs', inThread())).toBe(true);
  await expect.poll(() => went).toEqual(['/northwind/c/general/t/thread_new']);
  expect(bodies()[0]).toEqual({
    content: 'The chairs',
    client_id: expect.any(String) as string,
    from_thread_id: 'thread_1',
  });
});
test('/new in a thread whose agent is archived takes the fallback agent', async () => {
  ws.people.agentsById.set('agent_coder', { ...coder(), status: 'archived' });
  await type('/new The chairs', inThread());
  await expect.poll(() => bodies()[0]).toMatchObject({ agent_id: 'agent_vibe' });
});
test('/new in a dive keeps its agent', async () => {
  const bound = { agent_id: 'agent_vibe', agent_version: 1, auto_reply: true };
  const fork = {
    ...inThread(),
    conversation: { ...conversation, fork: 'fork_1' },
    responder: responderOf(bound, ws),
  };
  await type('/new The chairs', fork);
  await expect.poll(() => bodies()[0]).toMatchObject({ agent_id: 'agent_vibe' });
});
test('/new alone opens the channel, with that agent chosen', async () => {
  expect(await type('/new', inThread())).toBe(true);
  expect(went).toEqual(['/northwind/c/general', 'focus']);
  expect(presetOf('chan_1', ws)?.agent?.id).toBe('agent_coder');
});
test('/agent in a channel applies to the next thread; an agent that is then archived is dropped', async () => {
  await type('/agent coder', inChannel());
  expect(presetOf('chan_1', ws)?.agent?.id).toBe('agent_coder');
  expect(changes()).toEqual([]);
  scene.event('agent.archived', { agent: { ...coder(), status: 'archived', version: 2 } });
  expect(presetOf('chan_1', ws)).toBeUndefined();
});
test('an agent archived without a new version was hidden from the user', () => {
  scene.event('agent.archived', { agent: { ...coder(), status: 'archived' } });
  expect(ws.people.agentsById.has('agent_coder')).toBe(false);
  expect(inThread().responder).toMatchObject({ state: 'barred', name: 'A restricted agent' });
});
test('/agent none undoes the choice; in an agent’s own channel it binds none', async () => {
  setPreset('chan_1', { agent: coder() }, ws);
  await choose(null, inChannel(), deps);
  expect(presetOf('chan_1', ws)).toBeUndefined();
  const own = channel({ id: 'chan_2', kind: 'direct', agent_id: 'agent_coder' });
  await choose(null, { ...inChannel(), channel: own }, deps);
  expect(presetOf('chan_2', ws)).toEqual({ agent: null });
});

const inPlace = (now: string, starts = false, silenced: string | null = null) => ({
  now: () => now,
  startsThread: () => starts,
  silenced: () => silenced,
  channel: () => 'chan_1',
});
const titles = (c: Completion) => c.hits.map((h) => h.title);
test('a slash lists commands, then agents: the current one first, and No agent last', () => {
  const menu = new Completion(ws, inPlace('agent_coder'));
  menu.update('/', 1);
  expect(titles(menu)).toEqual(['/agent', '/new', '/run']);
  menu.update('/agent', 6);
  expect(titles(menu)).toEqual(['Coder', 'Vibe', 'No agent']);
  expect(menu.picked?.note).toBe('Current');
  menu.update('/agent vi', 9);
  expect(titles(menu)).toEqual(['Vibe']);
  menu.update('/agent no', 9);
  expect(titles(menu)).toEqual(['No agent']);
  menu.update('@', 1);
  expect(menu.choosing).toBe(false);
  expect(titles(menu)).toContain('Bo');
});
const bot = (id: string, channels: string[], names: string[]): Bot => ({
  id,
  object: 'bot',
  handle: id,
  name: 'Deploy',
  avatar_url: null,
  about: null,
  channel_ids: channels,
  scopes: ['chat:read', 'chat:write'],
  show_emails: false,
  link_domains: [],
  subscription: null,
  commands: names.map((name) => ({ name, usage: '[service]', description: `Does ${name}` })),
  status: 'active',
  paused_reason: null,
  created_by: 'user_bo',
  created_at: AT,
  last_used_at: null,
  version: 1,
});
test('a slash lists the commands of the bots in the channel', async () => {
  scene.backend.bots = [bot('bot_1', ['chan_1'], ['ship', 'deploy']), bot('bot_2', ['chan_2'], ['page'])];
  for (const { id, handle, name, commands } of scene.backend.bots)
    ws.people.bots.set(id, { id, handle, name, commands: commands.map((c) => c.name) });
  const menu = new Completion(ws, inPlace('agent_coder'));
  menu.update('/', 1);
  await expect.poll(() => titles(menu)).toEqual(['/agent', '/new', '/run', '/deploy', '/ship']);
  menu.update('/dep', 4);
  expect(menu.picked).toMatchObject({ insert: '/deploy', note: '[service] · Does deploy' });
});
test('among many agents, No agent stays in sight', () => {
  for (let i = 0; i < 9; i++) ws.people.agentsById.set(`a${i}`, agent(`a${i}`, `h${i}`, `Helper ${i}`));
  const menu = new Completion(ws, inPlace(NOBODY.key));
  menu.update('/agent ', 7);
  expect(menu.hits).toHaveLength(6);
  expect(menu.picked).toMatchObject({ title: 'No agent', note: 'Current' });
  const bound = new Completion(ws, inPlace('agent_coder'));
  bound.update('/agent ', 7);
  expect(titles(bound)[0]).toBe('Coder');
  expect(titles(bound).at(-1)).toBe('No agent');
});
test('an agent that is off in the channel is not offered for a mention', () => {
  const menu = new Completion(ws, inPlace(NOBODY.key, false, 'agent_vibe'));
  menu.update('@', 1);
  expect(titles(menu)).toContain('Coder');
  expect(titles(menu)).not.toContain('Vibe');
});
test('in a composer that starts threads, /new is not offered', () => {
  const menu = new Completion(ws, inPlace(NOBODY.key, true));
  menu.update('/', 1);
  expect(titles(menu)).toEqual(['/agent', '/run']);
});
test('in a composer without commands, a slash is text', () => {
  const menu = new Completion(ws);
  menu.update('/agent', 6);
  expect(menu.open).toBe(false);
});
