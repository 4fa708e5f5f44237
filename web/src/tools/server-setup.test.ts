import { expect, test } from 'vitest';
import type { AgentPatch, AgentProfile } from '../api/agent-types';
import { ApiError, Conflict } from '../api/problem';
import type { AcceptanceForm, RegisteredFunction, RegisteredTool, ToolForm, ToolPatch } from '../api/tools';
import { missingStep, ServerSetup, type SetupApi } from './server-setup.svelte';
import { setServer, type UsersApi } from './server-users';

const fn = (name: string, more: Partial<RegisteredFunction> = {}): RegisteredFunction => ({
  name,
  title: name,
  state: 'new',
  effect: 'read',
  risk: 'autonomous',
  definition: { name, description: `Does ${name}` },
  definition_hash: `hash of ${name}`,
  accepted: null,
  ...more,
});
const FUNCTIONS = [
  fn('find'),
  fn('create', { effect: 'write', risk: 'approve' }),
  fn('wipe', { effect: 'destructive', risk: 'escalate' }),
  fn('long', { definition: { description: 'x'.repeat(301) } }),
  fn('hidden', { definition: { description: 'Finds', inputSchema: { title: 'a\u200Bb' } } }),
];

/** A registry and agents in memory. `fail` names requests that fail once each, such as `accept find`. */
function world({ fail = [] as string[], listed = FUNCTIONS } = {}) {
  const log: string[] = [];
  let tool: RegisteredTool | null = null;
  const agents = new Map(
    ['vibe', 'coder'].map((id) => [id, { id, version: 1, tools: [{ type: 'web_fetch' }] } as AgentProfile]),
  );
  const done = (what: string) => {
    log.push(what);
    const at = fail.indexOf(what);
    if (at < 0) return;
    fail.splice(at, 1);
    throw new ApiError(503, { error: { message: `no ${what}`, code: 'tool_unreachable' } }, '');
  };
  const change = (more: Partial<RegisteredTool>) => (tool = { ...tool!, ...more });
  const used = () => {
    const users = [...agents.values()].filter((a) => a.tools.some((t) => t.type === 'mcp'));
    return users.map((a) => ({ agent_id: a.id, name: a.id, functions: 0 }));
  };
  const run = <T>(work: () => T): Promise<T> => new Promise((resolve) => resolve(work()));
  const api: SetupApi = {
    all: () => run(() => (tool ? [tool] : [])),
    get: () => run(() => ({ ...tool!, used_by: used() })),
    create: (body: ToolForm) =>
      run(() => {
        done(`create ${body.name}`);
        return change({
          ...body,
          id: 'tool_1',
          title: body.name,
          version: 1,
          functions: [],
          used_by: [],
          rejected: [],
          channel_ids: null,
        } as Partial<RegisteredTool>);
      }),
    patch: (_, version, body: ToolPatch) =>
      run(() => {
        done(`patch ${Object.keys(body).join()} ${version}`);
        return change({ ...body, version: version + 1 } as Partial<RegisteredTool>);
      }),
    putSecret: (_, version, value) =>
      run(() => {
        done(`secret ${value} ${version}`);
        change({ version: version + 1, secret_set: true });
      }),
    refresh: () =>
      run(() => {
        done('refresh');
        return change({ functions: listed });
      }),
    accept: (_, name, body: AcceptanceForm) =>
      run(() => {
        done(`accept ${name}`);
        const functions = tool!.functions.map((f) =>
          f.name === name ? { ...f, state: 'accepted' as const, risk: body.risk } : f,
        );
        return change({ functions });
      }),
  };
  const users: UsersApi = {
    get: (id) => run(() => agents.get(id)!),
    patch: (id, version, body: AgentPatch) =>
      run(() => {
        done(`agent ${id} ${version}`);
        const next = { ...agents.get(id)!, version: version + 1, tools: body.tools } as AgentProfile;
        agents.set(id, next);
        return next;
      }),
  };
  const setup = new ServerSetup(api, users, (id) => id.toUpperCase(), 'vibe');
  setup.address = 'https://mcp.tracker.dev/mcp';
  return { log, setup, agents, users, tool: () => tool!, api };
}
const checked = (setup: ServerSetup) => setup.functions.filter((f) => f.checked).map((f) => f.of.name);

test('a server is connected, accepted, and given to the default agent', async () => {
  const { setup, log, agents } = world();
  await setup.connect();
  expect([setup.step, checked(setup)]).toEqual(['what', ['find', 'create']]);
  await setup.accept();
  expect([setup.step, [...setup.agents]]).toEqual(['who', ['vibe']]);
  await setup.finish();
  expect(setup.outcome).toBe('VIBE can now use 2 functions of tracker.');
  expect(log).toEqual(['create tracker', 'refresh', 'accept find', 'accept create', 'agent vibe 1']);
  expect(agents.get('vibe')!.tools).toEqual([{ type: 'web_fetch' }, { type: 'mcp', registry_id: 'tool_1' }]);
});

test('a failed connection keeps the fields, and repeating does only what is missing', async () => {
  const { setup, log } = world({ fail: ['refresh', 'refresh'] });
  await expect(setup.connect()).rejects.toThrow('no refresh');
  expect([setup.step, setup.address, setup.tool?.id]).toEqual([
    'where',
    'https://mcp.tracker.dev/mcp',
    'tool_1',
  ]);
  setup.auth = 'bearer';
  setup.secret = 'sk';
  await expect(setup.connect()).rejects.toThrow('no refresh');
  expect([setup.auth, setup.secret]).toEqual(['bearer', 'sk']);
  await setup.connect();
  expect([setup.step, setup.secret]).toEqual(['what', '']);
  expect(log).toEqual([
    'create tracker',
    'refresh',
    'patch config 1',
    'secret sk 2',
    'refresh',
    'secret sk 3',
    'refresh',
  ]);
});

test('functions that say more than they show are accepted only after they were opened', async () => {
  const { setup } = world();
  await setup.connect();
  const mustBeRead = setup.functions.filter((f) => f.mustBeRead);
  expect(mustBeRead.map((f) => [f.of.name, f.checked, f.canBeChecked])).toEqual([
    ['long', false, false],
    ['hidden', false, false],
  ]);
  mustBeRead[0]!.opened = true;
  expect(mustBeRead[0]!.canBeChecked).toBe(true);
  const changed = world({ listed: [fn('find', { state: 'changed' })] });
  await changed.setup.connect();
  expect(changed.setup.functions.map((f) => [f.checked, f.canBeChecked])).toEqual([[false, false]]);
});

test('failed requests are named, and repeating sends only them', async () => {
  const { setup, log } = world({ fail: ['accept create', 'agent coder 1'] });
  await setup.connect();
  await setup.accept();
  expect([setup.step, setup.failures, setup.chosen]).toEqual(['what', ['create: No accept create'], 1]);
  await setup.accept();
  setup.agents.add('coder');
  await setup.finish();
  expect([setup.step, setup.failures]).toEqual(['who', ['CODER: No agent coder 1']]);
  log.length = 0;
  await setup.finish();
  expect([setup.step, setup.failures]).toEqual(['done', []]);
  expect(log).toEqual(['agent coder 1']);
});

test('a definition that changed on screen is chosen again before it is accepted', async () => {
  const { setup, api, tool } = world();
  await setup.connect();
  const current = {
    ...tool(),
    functions: tool().functions.map((f) => (f.name === 'find' ? { ...f, definition_hash: 'other' } : f)),
  };
  api.accept = () => Promise.reject(new Conflict({ error: { message: 'changed', current } }, ''));
  await setup.accept();
  expect(setup.failures[0]).toBe('find: Changed');
  expect(checked(setup)).toEqual(['create']);
});

test('a server that was left early continues where it stopped', async () => {
  const { setup, tool, api, users } = world();
  await setup.connect();
  expect(missingStep(tool())).toBe('what');
  await setup.accept();
  expect(missingStep(tool())).toBe('who');
  const later = new ServerSetup(api, users, (id) => id, 'vibe');
  await later.open(tool(), 'who');
  expect([later.address, later.step, [...later.agents]]).toEqual([
    'https://mcp.tracker.dev/mcp',
    'who',
    ['vibe'],
  ]);
  await later.finish();
  later.agents.delete('vibe');
  later.agents.add('coder');
  later.channels = ['chan_1'];
  await later.finish();
  expect(later.outcome).toBe('coder can now use 2 functions of tracker.');
  expect(tool().channel_ids).toEqual(['chan_1']);
});

test('an agent that someone else saved meanwhile keeps their tools', async () => {
  const { users, agents } = world();
  const old = { ...agents.get('vibe')! };
  const mine = { ...old, version: 2, tools: [{ type: 'file_search' }] } as AgentProfile;
  agents.set('vibe', mine);
  let stale = true;
  const racing: UsersApi = {
    get: () => Promise.resolve(old),
    patch: (id, version, body) => {
      if (!stale) return users.patch(id, version, body);
      stale = false;
      return Promise.reject(new Conflict({ error: { message: 'stale', current: mine } }, ''));
    },
  };
  await setServer(racing, 'vibe', 'tool_1', true);
  expect(agents.get('vibe')!.tools).toEqual([
    { type: 'file_search' },
    { type: 'mcp', registry_id: 'tool_1' },
  ]);
});
