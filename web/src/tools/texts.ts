import { ApiError, errorMessage, type ErrorCode } from '../api/problem';
import type { AuthKind, Effect, Risk, RegisteredFunction, ToolStatus } from '../api/tools';
import { withCodes } from '../lib/text';

export const AUTH: Record<AuthKind, string> = {
  none: 'None',
  bearer: 'Key',
  header: 'Header',
};
export const EFFECT: Record<Effect, string> = {
  read: 'Read',
  write: 'Change',
  destructive: 'Delete',
};
/** Headings of functions with an effect. */
export const EFFECTS: [Effect, string][] = [
  ['read', 'Reads'],
  ['write', 'Changes'],
  ['destructive', 'Deletes'],
];
/** People whom an agent asks before a call. */
export const ASKS: Record<Risk, string> = {
  autonomous: 'Nobody',
  approve: 'The person who asked',
  escalate: 'The person who asked and an admin',
};
export const STATE: Record<RegisteredFunction['state'], string> = {
  new: 'New',
  accepted: 'Accepted',
  changed: 'Changed by the server',
  removed: 'No longer offered by the server',
};
/** Trust levels of a workspace, from 0. */
export const trustTexts = (workspace: string): string[] => [
  'No tools at all',
  'Only reading',
  'As set for each function',
  `Also post inside ${workspace} without asking`,
];
/** Problem of a server; blank if there is none. */
export const PROBLEM: Record<ToolStatus, string> = {
  ok: '',
  unreachable: 'The server could not be reached.',
  too_much_data: 'The server sent too much data.',
  auth_failed: 'The server wants another key. Replace it.',
  secret_unreadable: 'The stored key can no longer be read. Enter it again.',
};

/** Errors that are complete sentences, which can start with the name of a host. */
const SENTENCES: readonly ErrorCode[] = ['tool_unreachable', 'address_not_allowed', 'own_server'];
/** Error message of a connection to a server. The name of a host keeps its spelling. */
export const connectionProblem = (e: unknown): string =>
  e instanceof ApiError && e.code && SENTENCES.includes(e.code) ? e.message : errorMessage(e);

/** Title and name of a function. A server chooses both, but agents see only the name. */
export const functionLabel = (of: Pick<RegisteredFunction, 'name' | 'title'>): string =>
  withCodes(of.title === of.name ? of.name : `${of.title} (${of.name})`);

/** Number of functions that a server lists and that cannot be used. */
export const rejectedText = (count: number): string =>
  count === 1 ? '1 function cannot be used' : `${count} functions cannot be used`;

/** Choices of "Asks" for a function with this effect: a destructive one always asks somebody. */
export const asksOf = (effect: Effect): Risk[] =>
  effect === 'destructive' ? ['approve', 'escalate'] : ['autonomous', 'approve', 'escalate'];

const NAME_MAX = 24;
/** Parts of host names that say nothing about the server. */
const PLAIN = ['mcp', 'api', 'www'];
/** A free name for the server at this address: `https://mcp.linear.app/sse` is `linear`, or `linear-2`. */
export function serverName(address: string, taken: readonly string[]): string {
  const host = URL.canParse(address) ? new URL(address).hostname : '';
  const labels = host.split('.');
  const first = labels.length > 2 && PLAIN.includes(labels[0]!) ? labels[1]! : labels[0]!;
  const isName = /[a-z]/.test(labels.at(-1)!);
  const base =
    (isName ? first : host)
      .replace(/[^a-z0-9_-]+/g, '-')
      .replace(/^[-_]+|-+$/g, '')
      .slice(0, NAME_MAX) || 'server';
  let name = base;
  for (let n = 2; taken.includes(name); n++) name = `${base.slice(0, NAME_MAX - `-${n}`.length)}-${n}`;
  return name;
}
