import type { AgentTool, DelegateTool, ToolKind, UnavailableBecause } from '../api/agent-types';
import type { RegisteredTool } from '../api/tools';

export const TOOL_KINDS: ToolKind[] = [
  'function',
  'mcp',
  'file_search',
  'code_interpreter',
  'web_fetch',
  'delegate',
];
/** Notes about tools that replies cannot use. */
const REASONS: Record<UnavailableBecause, string> = {
  client_only: 'Run by the calling program',
  no_runner: 'Not available: this server can’t run code',
  not_registered: 'Not available: add the server in Settings › Tools',
  not_allowed: 'Not allowed in this workspace',
  not_accepted: 'Not available: no function of the server is accepted',
  disabled: 'Not available: the server is turned off',
};

export interface ReadTools {
  tools: AgentTool[];
  problem: string | null;
}
const broken = (problem: string): ReadTools => ({ tools: [], problem });

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

/** The parsed list, or its first error in one sentence. */
export function readTools(text: string): ReadTools {
  if (!text.trim()) return { tools: [], problem: null };
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
    if (problem) return broken(`Tool ${i + 1}: ${problem}`);
  }
  return { tools: value as AgentTool[], problem: null };
}
function problemOf(tool: unknown, seen: Set<string>): string | null {
  if (typeof tool !== 'object' || tool === null || Array.isArray(tool))
    return 'each entry must be an object with a "type".';
  const { type, name, parameters, server_label, registry_id } = tool as Record<string, unknown>;
  if (typeof type !== 'string') return '"type" is missing.';
  if (!(TOOL_KINDS as string[]).includes(type))
    return `"${type}" is not a kind of tool. Supported kinds: ${TOOL_KINDS.join(', ')}.`;
  if (type === 'mcp' && typeof (registry_id ?? server_label) !== 'string')
    return 'an mcp tool needs a "registry_id" or a "server_label".';
  if (type !== 'function' || registry_id) return null;
  if (typeof name !== 'string' || !name) return 'a function needs a "name".';
  if (seen.has(name)) return `the name "${name}" is used twice.`;
  seen.add(name);
  if (parameters !== undefined && (typeof parameters !== 'object' || Array.isArray(parameters)))
    return '"parameters" must be a JSON Schema object.';
  return null;
}

/** The tools with these settings of `delegate`, which is added if it is missing; null removes a setting. */
export function withDelegate(tools: AgentTool[], more: Partial<DelegateTool>): AgentTool[] {
  const old = tools.find((tool) => tool.type === 'delegate');
  const kept = Object.entries({ ...old, ...more }).filter(([key, value]) => value !== null || !(key in more));
  const next = { ...Object.fromEntries(kept), type: 'delegate' } as DelegateTool;
  return old ? tools.map((tool) => (tool === old ? next : tool)) : [...tools, next];
}

/** Name of a tool in lists. */
export const toolName = (tool: AgentTool): string => ('name' in tool && tool.name) || tool.type;
/** Reason reported by the server. For an entry that is not saved yet, the reason that its fields imply. */
function reasonOf(tool: AgentTool): UnavailableBecause | null {
  const known = tool.unavailable_because;
  if (typeof known === 'string' && known in REASONS) return known as UnavailableBecause;
  if (tool.available !== undefined) return null;
  if (tool.type === 'function') return 'client_only';
  return tool.type === 'mcp' && !tool.registry_id ? 'not_registered' : null;
}
export function toolText(
  tool: AgentTool,
  allowed: string[] | null,
): { name: string; note: string; available: boolean } {
  const name = ('server_label' in tool && tool.server_label) || toolName(tool);
  const reason = allowed && !allowed.includes(tool.type) ? 'not_allowed' : reasonOf(tool);
  return {
    name,
    note: reason ? REASONS[reason] : 'Used in replies',
    available: !reason || reason === 'client_only',
  };
}

const SERVER_FIELDS = ['available', 'unavailable_because'];
/** A tool as it is stored, without the fields that the server sets. */
export function storedTool(tool: AgentTool): AgentTool {
  const stored = Object.entries(tool).filter(([key]) => !SERVER_FIELDS.includes(key));
  return Object.fromEntries(stored) as unknown as AgentTool;
}
type ServerTool = Extract<AgentTool, { type: 'mcp' }>;
export const serverEntry = (tools: AgentTool[], id: string): ServerTool | undefined =>
  tools.find((tool): tool is ServerTool => tool.type === 'mcp' && tool.registry_id === id);
/** Names of a server's accepted functions. */
export const acceptedOf = (server: Pick<RegisteredTool, 'functions'>): string[] =>
  server.functions.filter((f) => f.state === 'accepted').map((f) => f.name);
