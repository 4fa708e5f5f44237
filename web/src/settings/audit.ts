import type { AuditEntry } from '../api/admin-types';
import { listed } from '../lib/text';
import { plural } from '../lib/time';
import { scopeName } from './roles';

/** Who and what the ids of an entry stand for. */
export interface AuditNames {
  person(id: string): string;
  agent(id: string): string | null;
  /** As `#general`. */
  channel(id: string): string | null;
}
type Data = Record<string, unknown>;
const text = (data: Data, key: string): string => (typeof data[key] === 'string' ? data[key] : '');
const list = (data: Data, key: string): string[] =>
  Array.isArray(data[key]) ? data[key].filter((x) => typeof x === 'string') : [];
const quoted = (data: Data, key: string): string => (text(data, key) ? ` “${text(data, key)}”` : '');
const agent = (e: AuditEntry, names: AuditNames): string =>
  (e.target && names.agent(e.target)) || (text(e.data, 'name') ? `@${text(e.data, 'name')}` : 'an agent');
const channel = (e: AuditEntry, names: AuditNames): string =>
  (e.target && names.channel(e.target)) || (text(e.data, 'name') ? `#${text(e.data, 'name')}` : 'a channel');
const other = (e: AuditEntry, key: string, names: AuditNames): string =>
  text(e.data, key) ? names.person(text(e.data, key)) : 'someone';
/** By name as it is now; of who left, as it was then. */
const person = (e: AuditEntry, names: AuditNames): string =>
  text(e.data, 'name') || (e.target ? names.person(e.target) : 'someone');

interface Action {
  /** In the filter. */
  name: string;
  /** After the person's name. */
  says: (e: AuditEntry, names: AuditNames) => string;
}
const STATUS: Record<string, string> = {
  active: 'put into use',
  inactive: 'put out of use',
  archived: 'archived',
};
export const ACTIONS: Record<string, Action> = {
  'member.role_changed': {
    name: 'Role changed',
    says: (e, n) =>
      `changed the role of ${person(e, n)}${text(e.data, 'from') ? ` from ${text(e.data, 'from')}` : ''} to ${text(e.data, 'to')}`,
  },
  'member.handle_changed': {
    name: 'Handle changed',
    says: (e, n) =>
      `changed the handle of ${person(e, n)} from @${text(e.data, 'from')} to @${text(e.data, 'to')}`,
  },
  'member.removed': {
    name: 'Member removed or left',
    says: (e, n) => (e.target === e.actor_id ? 'left the workspace' : `removed ${person(e, n)}`),
  },
  'member.exported': {
    name: 'Data exported',
    says: (e, n) =>
      e.target === e.actor_id ? 'exported their data' : `exported the data of ${person(e, n)}`,
  },
  // Who it was is nowhere any more.
  'member.erased': {
    name: 'Data erased',
    says: (e) =>
      typeof e.data.messages === 'number' && typeof e.data.files === 'number'
        ? `erased the data of a member: ${plural(e.data.messages, 'message')} and ${plural(e.data.files, 'file')}`
        : 'erased the data of a member',
  },
  'invite.created': {
    name: 'Invite made',
    says: (e) =>
      `made an invite link for ${text(e.data, 'email') || 'anyone who has it'}, as ${text(e.data, 'role') || 'member'}`,
  },
  'invite.withdrawn': { name: 'Invite taken back', says: () => 'took back an invite link' },
  'key.created': {
    name: 'Key made',
    says: (e) =>
      `made the key${quoted(e.data, 'name')}${list(e.data, 'scopes').length ? `: ${listed(list(e.data, 'scopes').map(scopeName))}` : ''}`,
  },
  'key.deleted': {
    name: 'Key revoked',
    says: (e, n) =>
      text(e.data, 'user_id') && text(e.data, 'user_id') !== e.actor_id
        ? `revoked a key of ${other(e, 'user_id', n)}`
        : 'revoked a key',
  },
  'workspace.updated': {
    name: 'Workspace changed',
    says: (e) => `changed the workspace:${quoted(e.data, 'name')} at /${text(e.data, 'slug')}`,
  },
  'policy.changed': { name: 'Rules for agents changed', says: () => 'changed the rules for agents' },
  'agent.created': { name: 'Agent made', says: (e, n) => `made ${agent(e, n)}` },
  'agent.updated': {
    name: 'Agent changed',
    says: (e, n) =>
      `changed ${agent(e, n)}${typeof e.data.version === 'number' ? ` (version ${e.data.version})` : ''}`,
  },
  'agent.status_changed': {
    name: 'Agent put in or out of use',
    says: (e, n) => `${STATUS[text(e.data, 'status')] ?? 'changed the status of'} ${agent(e, n)}`,
  },
  'agent.made_default': {
    name: 'Default agent chosen',
    says: (e, n) => `made ${agent(e, n)} the default agent`,
  },
  'agent.deleted': { name: 'Agent deleted', says: (e, n) => `deleted ${agent(e, n)} for good` },
  'file.changed': { name: 'Shared file changed', says: (e) => `changed ${e.target ?? 'a shared file'}` },
  'file.deleted': { name: 'Shared file deleted', says: (e) => `deleted ${e.target ?? 'a shared file'}` },
  'sandbox_policy.created': {
    name: 'Sandbox made',
    says: (e) => `made the limits for sandboxes${quoted(e.data, 'name')}`,
  },
  'sandbox_policy.changed': {
    name: 'Sandbox changed',
    says: (e) => `changed the limits for sandboxes${quoted(e.data, 'name')}`,
  },
  'sandbox_policy.deleted': {
    name: 'Sandbox deleted',
    says: (e) => `deleted the limits for sandboxes${quoted(e.data, 'name')}`,
  },
  'channel.archived': { name: 'Channel archived', says: (e, n) => `archived ${channel(e, n)}` },
  'channel.unarchived': { name: 'Channel brought back', says: (e, n) => `brought back ${channel(e, n)}` },
  'channel.member_removed': {
    name: 'Member taken out of a channel',
    says: (e, n) => `took ${other(e, 'user_id', n)} out of ${channel(e, n)}`,
  },
  'message.deleted': {
    name: 'Message of another deleted',
    says: (e, n) => `deleted a message of ${other(e, 'author_id', n)}`,
  },
};
export const actionName = (action: string): string => ACTIONS[action]?.name ?? action;
/** One that is not known here is shown as it is. */
export const auditWords = (e: AuditEntry, names: AuditNames): string =>
  ACTIONS[e.action]?.says(e, names) ?? `${e.action}${e.target ? ` ${e.target}` : ''}`;
