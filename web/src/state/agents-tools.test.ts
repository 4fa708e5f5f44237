import { expect, test } from 'vitest';
import type { AgentProfile, AgentTool } from '../api/agent-types';
import type { RegisteredFunction, RegisteredTool } from '../api/tools';
import { profile } from '../test/make-agents';
import { fieldsOf, patchOf } from './agents-fields';
import {
  abilitiesText,
  ABILITIES,
  acceptedOf,
  hasAbility,
  readFunctions,
  serverEntry,
  usableOf,
  withAbility,
  withDelegate,
  withFunctions,
  withServer,
} from './agents-tools';

const fn = (name: string, more: Partial<RegisteredFunction> = {}): RegisteredFunction => ({
  name,
  title: name,
  state: 'accepted',
  effect: 'read',
  risk: 'autonomous',
  definition: {},
  definition_hash: name,
  accepted: null,
  ...more,
});
const server = (id: string, names: string[]): RegisteredTool =>
  ({ id, title: id, enabled: true, functions: names.map((name) => fn(name)) }) as RegisteredTool;
const TRACKER = server('tool_tracker', ['find', 'create', 'wipe']);
const WIKI = server('tool_wiki', ['read']);

test('functions of programs are read as JSON, with the position of an error', () => {
  expect(readFunctions('')).toEqual({ functions: [], problem: null });
  expect(readFunctions('[{"type": "function",\n  oops}]').problem).toMatch(/in line 2/);
  expect(readFunctions('{}').problem).toMatch(/list/);
  expect(readFunctions('[{"type":"web_fetch"}]').problem).toBe('Function 1: "type" must be "function".');
  expect(readFunctions('[{"type":"function"}]').problem).toMatch(/needs a "name"/);
  expect(readFunctions('[{"type":"function","name":"a"},{"type":"function","name":"a"}]').problem).toMatch(
    /Function 2: the name "a" is used twice/,
  );
  const functions = [{ type: 'function', name: 'a' }];
  expect(readFunctions(JSON.stringify(functions))).toEqual({ functions, problem: null });
});

test('changed functions of programs leave other tools where they are', () => {
  const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ type: 'function' as const, name }));
  const tools: AgentTool[] = [{ type: 'web_fetch' }, a!, { type: 'delegate' }, b!];
  expect(withFunctions(tools, [c!])).toEqual([{ type: 'web_fetch' }, c, { type: 'delegate' }]);
  expect(withFunctions(tools, [b!, a!, c!])).toEqual([{ type: 'web_fetch' }, b, { type: 'delegate' }, a, c]);
});

test('settings of delegation change only their tool', () => {
  const tools: AgentTool[] = [{ type: 'web_fetch' }, { type: 'delegate' }];
  const set = withDelegate(tools, { agents: ['coder'], rounds_max: 3 });
  expect(set).toEqual([{ type: 'web_fetch' }, { type: 'delegate', agents: ['coder'], rounds_max: 3 }]);
  expect(withDelegate(set, { agents: null })[1]).toEqual({ type: 'delegate', rounds_max: 3 });
});

test('an ability that was on returns with its settings to its place', () => {
  const start: AgentTool[] = [
    { type: 'file_search', vector_store_ids: [], max_num_results: 3 },
    { type: 'function', name: 'a' },
    { type: 'delegate' },
  ];
  const without = withAbility(start, start, 'file_search', false);
  expect(without).toEqual(start.slice(1));
  expect(withAbility(without, start, 'file_search', true)).toEqual(start);
  expect(withAbility(without, start, 'web_fetch', true)).toEqual([...without, { type: 'web_fetch' }]);
});

test('a server has allowed_tools only if not all accepted functions are checked', () => {
  const all = withServer([], [], TRACKER, ['find', 'create', 'wipe']);
  expect(all).toEqual([{ type: 'mcp', registry_id: TRACKER.id }]);
  const some = withServer(all, [], TRACKER, ['find', 'create']);
  expect(some).toEqual([{ type: 'mcp', registry_id: TRACKER.id, allowed_tools: ['find', 'create'] }]);
  expect(withServer(some, [], TRACKER, [])).toEqual([]);
  // A function that is accepted later is not included.
  const later = server(TRACKER.id, ['find', 'create', 'wipe', 'new']);
  expect(usableOf(serverEntry(some, TRACKER.id), acceptedOf(later))).toEqual(['find', 'create']);
});

test('names that are not accepted and other settings of a server stay', () => {
  const start: AgentTool[] = [
    {
      type: 'mcp',
      registry_id: TRACKER.id,
      server_label: 'tracker',
      allowed_tools: ['gone', 'wipe'],
      require_approval: 'always',
    },
  ];
  expect(withServer(start, start, TRACKER, ['find', 'wipe'])).toEqual([
    { ...start[0], allowed_tools: ['gone', 'wipe', 'find'] },
  ]);
  expect(withServer([], start, TRACKER, ['wipe'])).toEqual(start);
});

test('what an agent can do is one line', () => {
  const tools: AgentTool[] = [
    { type: 'file_search', vector_store_ids: [], available: true },
    { type: 'code_interpreter', available: false },
    { type: 'mcp', registry_id: TRACKER.id },
    { type: 'mcp', registry_id: WIKI.id, allowed_tools: [] },
  ];
  expect(abilitiesText(tools, [TRACKER, WIKI])).toEqual([
    'search this workspace',
    'tool_tracker (3 functions)',
  ]);
});

/** Deterministic random numbers (mulberry32), so that a failure can be repeated. */
function random(seed: number) {
  let s = seed;
  return (n: number) => {
    s = (s + 0x6d2b79f5) | 0;
    let t = Math.imul(s ^ (s >>> 15), 1 | s);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % n;
  };
}
/** A profile as the API returns it, with tools of all kinds in any order. */
function generated(seed: number): AgentProfile {
  const r = random(seed);
  const maybe = <T>(value: T): T | undefined => (r(2) ? value : undefined);
  const names = ['find', 'create', 'wipe', 'gone', 'read'].filter(() => r(2));
  const pool: AgentTool[] = [
    { type: 'file_search', vector_store_ids: [], max_num_results: maybe(r(50) + 1) },
    { type: 'web_fetch', allowed_domains: maybe(['a.dev']), max_uses: maybe(r(9)) },
    { type: 'delegate', agents: maybe(['coder']), context: maybe('conversation' as const) },
    { type: 'code_interpreter', container: maybe({ type: 'auto' }) },
    { type: 'mcp', registry_id: TRACKER.id, allowed_tools: maybe(names), server_label: maybe('tracker') },
    { type: 'mcp', registry_id: WIKI.id, require_approval: maybe('always' as const) },
    { type: 'mcp', server_label: 'old', server_url: 'https://old.dev' },
    { type: 'function', name: 'a', parameters: maybe({ type: 'object', properties: { z: {}, a: {} } }) },
    { type: 'function', name: 'b', strict: maybe(true) },
  ];
  const tools: AgentTool[] = [];
  while (pool.length) {
    const [one] = pool.splice(r(pool.length), 1);
    if (r(4)) tools.push({ ...one!, available: !!r(2), unavailable_because: r(2) ? 'not_allowed' : null });
  }
  // The server omits absent fields.
  const made = profile({ tools: tools as AgentProfile['tools'], temperature: maybe(0.5) ?? null });
  return JSON.parse(JSON.stringify(made)) as AgentProfile;
}
const stored = (tools: AgentTool[]) =>
  tools.map(({ available: _, unavailable_because: __, ...tool }) => JSON.stringify(tool));

test('300 profiles are saved as they were, except for what was touched', () => {
  for (let seed = 1; seed <= 300; seed++) {
    const before = generated(seed);
    const r = random(seed + 1_000_000);
    const start = fieldsOf(before);
    expect(patchOf(start, fieldsOf(before)), `seed ${seed}`).toEqual({});
    expect(JSON.stringify(start.tools), `seed ${seed}`).toBe(`[${stored(before.tools).join()}]`);

    const toggle = (tools: AgentTool[], type: (typeof ABILITIES)[number]['type']) =>
      withAbility(tools, start.tools, type, !hasAbility(tools, type));
    const pick = (tools: AgentTool[]) =>
      withServer(
        tools,
        start.tools,
        TRACKER,
        acceptedOf(TRACKER).filter(() => r(2)),
      );
    let tools = start.tools;
    const touched = new Set<string>();
    for (let n = r(6); n > 0; n--) {
      const { type } = ABILITIES[r(4)]!;
      if (r(3)) {
        touched.add(type);
        tools = toggle(tools, type);
      } else tools = pick(tools);
    }
    const isTouched = (tool: AgentTool) =>
      touched.has(tool.type) || (tool.type === 'mcp' && tool.registry_id === TRACKER.id);
    const untouched = (list: AgentTool[]) => stored(list.filter((tool) => !isTouched(tool)));
    expect(untouched(tools), `seed ${seed}`).toEqual(untouched(before.tools));

    // Everything that was touched is set back.
    for (const { type } of ABILITIES)
      tools = withAbility(tools, start.tools, type, hasAbility(start.tools, type));
    const first = usableOf(serverEntry(start.tools, TRACKER.id), acceptedOf(TRACKER));
    const isEmpty = serverEntry(start.tools, TRACKER.id) && !first.length;
    if (isEmpty) continue; // A server without usable functions cannot be chosen again.
    tools = withServer(tools, start.tools, TRACKER, first);
    expect(patchOf(start, { ...start, tools }), `seed ${seed}`).toEqual({});
    expect(stored(tools), `seed ${seed}`).toEqual(stored(before.tools));
  }
});
