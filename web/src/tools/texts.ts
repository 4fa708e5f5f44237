import type { AuthKind, Effect, Risk, RegisteredFunction, ToolStatus } from '../api/tools';
import { withCodes } from '../lib/text';

export const AUTH: Record<AuthKind, string> = {
  none: 'None',
  bearer: 'Bearer token',
  header: 'Header',
};
export const EFFECT: Record<Effect, string> = {
  read: 'Read',
  write: 'Write',
  destructive: 'Destructive',
};
/** People who must approve a call. */
export const APPROVAL: Record<Risk, string> = {
  autonomous: 'Never',
  approve: 'Requester',
  escalate: 'Requester and admin',
};
export const STATE: Record<RegisteredFunction['state'], string> = {
  new: 'New',
  accepted: 'Accepted',
  changed: 'Changed by the server',
  removed: 'No longer offered by the server',
};
/** Trust levels of a workspace, from 0. */
export const TRUST = ['Off', 'Read only', 'As set per function', 'No questions inside the workspace'];
/** Problem of a server; blank if there is none. */
export const PROBLEM: Record<ToolStatus, string> = {
  ok: '',
  unreachable: 'The server could not be reached.',
  too_much_data: 'The server sent too much data.',
  auth_failed: 'The server rejected the secret. Replace it.',
  secret_unreadable: 'The stored secret can no longer be read. Enter it again.',
};

/** Title and name of a function. A server chooses both, but agents see only the name. */
export const functionLabel = (of: Pick<RegisteredFunction, 'name' | 'title'>): string =>
  withCodes(of.title === of.name ? of.name : `${of.title} (${of.name})`);

/** Number of functions that a server lists and that cannot be used. */
export const rejectedText = (count: number): string =>
  count === 1 ? '1 function cannot be used' : `${count} functions cannot be used`;

/** Approvals that a function with this effect can have: a destructive one always needs one. */
export const approvalsOf = (effect: Effect): Risk[] =>
  effect === 'destructive' ? ['approve', 'escalate'] : ['autonomous', 'approve', 'escalate'];
