import type { AgentTool, DelegateTool, ToolKind, UnavailableBecause } from '../api/agent-types';
import type { Effect, RegisteredTool } from '../api/tools';
import { plural } from '../lib/time';

export const TOOL_KINDS: ToolKind[] = [
  'function',
  'mcp',
  'file_search',
  'code_interpreter',
  'web_fetch',
  'delegate',
];
/** Built-in functions that an agent can have, in display order. */
export const ABILITIES = [
  { type: 'file_search', label: 'Search this workspace' },
  { type: 'web_fetch', label: 'Read web pages' },
  { type: 'delegate', label: 'Ask other agents' },
  { type: 'code_interpreter', label: 'Run code' },
] as const;
export type Ability = (typeof ABILITIES)[number]['type'];

/** Reasons why replies cannot use a tool. */
export const REASONS: Record<UnavailableBecause, string> = {
  client_only: 'Run by the calling program',
  no_runner: 'This server can’t run code',
  not_registered: 'The server is not in Settings › Tools',
  not_allowed: 'Not allowed in this workspace',
  not_accepted: 'No function accepted yet',
  disabled: 'The server is turned off',
  not_found: 'A collection was deleted',
};

const SERVER_FIELDS = ['available', 'unavailable_because'];
/** A tool as it is stored, without the fields that the server sets. */
export function storedTool(tool: AgentTool): AgentTool {
  const stored = Object.entries(tool).filter(([key]) => !SERVER_FIELDS.includes(key));
  return Object.fromEntries(stored) as unknown as AgentTool;
}
/** Identity of a tool: an agent cannot have two tools with the same key. */
function keyOf(tool: AgentTool): string {
  const name =
    tool.type === 'function'
      ? (tool.name ?? tool.registry_id)
      : tool.type === 'mcp'
        ? (tool.registry_id ?? tool.server_label)
        : null;
  return JSON.stringify([tool.type, name ?? null]);
}

/**
 * The tools with this entry, or without it if `entry` is null. All other entries and their order stay. An entry that the
 * agent had at the `start` returns to its place.
 */
function withEntry(
  tools: AgentTool[],
  start: AgentTool[],
  key: string,
  entry: AgentTool | null,
): AgentTool[] {
  const is = (tool: AgentTool) => keyOf(tool) === key;
  if (!entry) return tools.some(is) ? tools.filter((tool) => !is(tool)) : tools;
  if (tools.some(is)) return tools.map((tool) => (is(tool) ? entry : tool));
  const home = start.findIndex(is);
  if (home < 0) return [...tools, entry];
  const before = start.slice(0, home).map(keyOf);
  const at = tools.findLastIndex((tool) => before.includes(keyOf(tool))) + 1;
  return tools.toSpliced(at, 0, entry);
}

export const hasAbility = (tools: AgentTool[], type: Ability): boolean =>
  tools.some((tool) => tool.type === type);
/** Turns a built-in function on or off. If it was on at the `start`, turning it on restores its settings. */
export function withAbility(tools: AgentTool[], start: AgentTool[], type: Ability, on: boolean): AgentTool[] {
  const blank = { type } as AgentTool;
  const is = (tool: AgentTool) => tool.type === type;
  return withEntry(tools, start, keyOf(blank), on ? (tools.find(is) ?? start.find(is) ?? blank) : null);
}
/** The tools with these settings of `delegate`; null removes a setting. */
export function withDelegate(tools: AgentTool[], more: Partial<DelegateTool>): AgentTool[] {
  return tools.map((tool) => {
    if (tool.type !== 'delegate') return tool;
    const kept = Object.entries({ ...tool, ...more }).filter(
      ([key, value]) => value !== null || !(key in more),
    );
    return Object.fromEntries(kept) as DelegateTool;
  });
}

type ServerTool = Extract<AgentTool, { type: 'mcp' }>;
const isServer = (tool: AgentTool, id: string): tool is ServerTool =>
  tool.type === 'mcp' && tool.registry_id === id;
export const serverEntry = (tools: AgentTool[], id: string): ServerTool | undefined =>
  tools.find((tool): tool is ServerTool => isServer(tool, id));
/** Names of a server's accepted functions. */
export const acceptedOf = (server: Pick<RegisteredTool, 'functions'>, effect?: Effect): string[] =>
  server.functions
    .filter((f) => f.state === 'accepted' && (!effect || f.effect === effect))
    .map((f) => f.name);
/** The accepted functions that an agent with this entry can use. */
export const usableOf = (entry: ServerTool | undefined, accepted: string[]): string[] =>
  entry ? accepted.filter((name) => !entry.allowed_tools || entry.allowed_tools.includes(name)) : [];
const isSame = (a: string[], b: string[]) => a.length === b.length && a.every((name) => b.includes(name));

/**
 * Lets an agent use these functions of a server. If they are all accepted functions, functions that are accepted later are
 * included. A choice that equals the one at the `start` restores that entry.
 */
export function withServer(
  tools: AgentTool[],
  start: AgentTool[],
  server: Pick<RegisteredTool, 'id' | 'functions'>,
  chosen: string[],
): AgentTool[] {
  const accepted = acceptedOf(server);
  const plain: ServerTool = { type: 'mcp', registry_id: server.id };
  const key = keyOf(plain);
  if (!chosen.length) return withEntry(tools, start, key, null);
  const first = serverEntry(start, server.id);
  if (first && isSame(usableOf(first, accepted), chosen)) return withEntry(tools, start, key, first);
  const { allowed_tools: allowed, ...rest } = serverEntry(tools, server.id) ?? first ?? plain;
  if (isSame(accepted, chosen)) return withEntry(tools, start, key, rest);
  const known = (allowed ?? []).filter((name) => !accepted.includes(name) || chosen.includes(name));
  const allowed_tools = [...known, ...chosen.filter((name) => !known.includes(name))];
  return withEntry(tools, start, key, { ...rest, allowed_tools });
}

type FunctionTool = Extract<AgentTool, { type: 'function' }>;
export const functionsOf = (tools: AgentTool[]): FunctionTool[] =>
  tools.filter((tool): tool is FunctionTool => tool.type === 'function');
/** The tools with these functions of programs; tools of other kinds keep their order. */
export function withFunctions(tools: AgentTool[], functions: FunctionTool[]): AgentTool[] {
  const rest = [...functions];
  const kept = tools.flatMap((tool): AgentTool[] => (tool.type === 'function' ? rest.splice(0, 1) : [tool]));
  return [...kept, ...rest];
}

export interface ReadFunctions {
  functions: FunctionTool[];
  problem: string | null;
}
const broken = (problem: string): ReadFunctions => ({ functions: [], problem });

/** "line 3, column 7" from the formats of browsers' JSON errors. */
function placeIn(text: string, e: unknown): string {
  const said = e instanceof Error ? e.message : '';
  const line = /line (\d+) column (\d+)/.exec(said);
  if (line) return ` in line ${line[1]}, column ${line[2]}`;
  const at = /position (\d+)/.exec(said);
  if (!at) return '';
  const before = text.slice(0, Number(at[1])).split('\n');
  return ` in line ${before.length}, column ${before.at(-1)!.length + 1}`;
}

/** The parsed list of functions, or its first error in one sentence. */
export function readFunctions(text: string): ReadFunctions {
  if (!text.trim()) return { functions: [], problem: null };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (e) {
    return broken(`Invalid JSON: there is an error${placeIn(text, e)}.`);
  }
  if (!Array.isArray(value)) return broken('Enter a list: [ { "type": "function", … } ].');
  const seen = new Set<string>();
  for (const [i, tool] of value.entries()) {
    const problem = problemOf(tool, seen);
    if (problem) return broken(`Function ${i + 1}: ${problem}`);
  }
  return { functions: value as FunctionTool[], problem: null };
}
function problemOf(tool: unknown, seen: Set<string>): string | null {
  if (typeof tool !== 'object' || tool === null || Array.isArray(tool))
    return 'each entry must be an object with a "type".';
  const { type, name, parameters, registry_id } = tool as Record<string, unknown>;
  if (type !== 'function') return '"type" must be "function".';
  if (registry_id) return null;
  if (typeof name !== 'string' || !name) return 'a function needs a "name".';
  if (seen.has(name)) return `the name "${name}" is used twice.`;
  seen.add(name);
  if (parameters !== undefined && (typeof parameters !== 'object' || Array.isArray(parameters)))
    return '"parameters" must be a JSON Schema object.';
  return null;
}

/** What an agent can do, as short phrases: "search this workspace", "Tracker (3 functions)". */
export function abilitiesText(tools: AgentTool[], servers: readonly RegisteredTool[]): string[] {
  const built = ABILITIES.filter(({ type }) => tools.some((t) => t.type === type && t.available !== false));
  const named = servers.flatMap((server) => {
    const count = usableOf(serverEntry(tools, server.id), acceptedOf(server)).length;
    return count && server.enabled ? [`${server.title} (${plural(count, 'function')})`] : [];
  });
  return [...built.map(({ label }) => label.charAt(0).toLowerCase() + label.slice(1)), ...named];
}
