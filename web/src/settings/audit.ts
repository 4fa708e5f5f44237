import type { AuditAction, AuditEntry } from '../api/admin-types';
import { listed } from '../lib/text';
import { plural } from '../lib/time';
import { scopeName } from './roles';

/** Names for the IDs in an entry. */
export interface AuditNames {
  person(id: string): string;
  agent(id: string): string | null;
  /** Name with a hash sign, such as `#general`. */
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
/** The person's current name; for a former member, the name at the time of the entry. */
const person = (e: AuditEntry, names: AuditNames): string =>
  text(e.data, 'name') || (e.target ? names.person(e.target) : 'someone');

interface Action {
  /** Name in the filter. */
  name: string;
  /** Text after the person's name. */
  describe: (e: AuditEntry, names: AuditNames) => string;
}
const STATUS: Record<string, string> = {
  active: 'turned on',
  inactive: 'turned off',
  archived: 'archived',
};
export const ACTIONS: Record<AuditAction, Action> = {
  'member.role_changed': {
    name: 'Role changed',
    describe: (e, n) =>
      `changed the role of ${person(e, n)}${text(e.data, 'from') ? ` from ${text(e.data, 'from')}` : ''} to ${text(e.data, 'to')}`,
  },
  'member.role_kept': {
    name: 'Role kept',
    describe: (e, n) => `could not change the role of ${person(e, n)} to ${text(e.data, 'to')}`,
  },
  'provider.created': {
    name: 'Provider added',
    describe: (e) => `added the provider${quoted(e.data, 'name')}`,
  },
  'provider.updated': {
    name: 'Provider changed',
    describe: (e) => `changed the provider${quoted(e.data, 'name')}`,
  },
  'provider.enabled': {
    name: 'Provider on',
    describe: (e) => `turned on the provider${quoted(e.data, 'name')}`,
  },
  'provider.disabled': {
    name: 'Provider off',
    describe: (e) => `turned off the provider${quoted(e.data, 'name')}`,
  },
  'provider.secret_changed': {
    name: 'Provider secret',
    describe: (e) => `changed the secret of the provider${quoted(e.data, 'name')}`,
  },
  'provider.tried': {
    name: 'Provider tried',
    describe: (e) => `tried the provider${quoted(e.data, 'name')}`,
  },
  'provider.links_sent': {
    name: 'Provider links',
    describe: (e) => `sent password links to people who sign in only with${quoted(e.data, 'name')}`,
  },
  'provider.deleted': {
    name: 'Provider deleted',
    describe: (e) => `deleted the provider${quoted(e.data, 'name')}`,
  },
  'identity.linked': {
    name: 'Provider connected',
    describe: (e) => `connected the provider “${text(e.data, 'provider')}” to their account`,
  },
  'identity.removed': {
    name: 'Provider disconnected',
    describe: (e) => `disconnected the provider “${text(e.data, 'provider')}” from their account`,
  },
  'scim.token_created': {
    name: 'Token created',
    describe: (e) => `created a SCIM token for the provider${quoted(e.data, 'name')}`,
  },
  'scim.token_deleted': {
    name: 'Token deleted',
    describe: (e) => `deleted a SCIM token of the provider${quoted(e.data, 'name')}`,
  },
  'scim.user_linked': {
    name: 'Account linked',
    describe: (e, n) => `began to manage the account of ${person(e, n)}`,
  },
  'member.handle_changed': {
    name: 'Handle changed',
    describe: (e, n) =>
      `changed the handle of ${person(e, n)} from @${text(e.data, 'from')} to @${text(e.data, 'to')}`,
  },
  'member.removed': {
    name: 'Member gone',
    describe: (e, n) => (e.target === e.actor_id ? 'left the workspace' : `removed ${person(e, n)}`),
  },
  'member.suspended': {
    name: 'Member suspended',
    describe: (e, n) => `suspended ${person(e, n)}`,
  },
  'member.not_suspended': {
    name: 'Member kept',
    describe: (e, n) => `did not suspend ${person(e, n)}, who is needed as an admin`,
  },
  'member.restored': {
    name: 'Member restored',
    describe: (e, n) => `restored ${person(e, n)}`,
  },
  'guest.changed': {
    name: 'Guest changed',
    describe: (e, n) => `chose the channels of ${person(e, n)}, a guest`,
  },
  'guest.ended': {
    name: 'Guest left',
    describe: (e, n) => `suspended ${person(e, n)}, whose time as a guest ended`,
  },
  'member.reset_link_created': {
    name: 'Password link',
    describe: (e, n) => `made a link with which ${person(e, n)} sets a new password`,
  },
  'member.exported': {
    name: 'Data exported',
    describe: (e, n) =>
      e.target === e.actor_id ? 'exported their data' : `exported the data of ${person(e, n)}`,
  },
  'member.erasure_started': {
    name: 'Erasure started',
    describe: () => 'began to erase a member’s data',
  },
  // The erased person's name no longer exists.
  'member.erased': {
    name: 'Data erased',
    describe: (e) =>
      typeof e.data.messages === 'number' && typeof e.data.files === 'number'
        ? `erased a member’s data: ${plural(e.data.messages, 'message')} and ${plural(e.data.files, 'file')}`
        : 'erased a member’s data',
  },
  'invite.created': {
    name: 'Invite created',
    describe: (e) =>
      `created an invite link for ${text(e.data, 'email') || 'anyone who has it'}, as ${text(e.data, 'role') || 'member'}`,
  },
  'invite.sent': {
    name: 'Invite resent',
    describe: (e) => `sent an invite again${quoted(e.data, 'email')}`,
  },
  'invite.withdrawn': { name: 'Invite revoked', describe: () => 'revoked an invite link' },
  'key.created': {
    name: 'Key created',
    describe: (e) =>
      `created the key${quoted(e.data, 'name')}${list(e.data, 'scopes').length ? `: ${listed(list(e.data, 'scopes').map(scopeName))}` : ''}`,
  },
  'key.deleted': {
    name: 'Key revoked',
    describe: (e, n) =>
      text(e.data, 'user_id') && text(e.data, 'user_id') !== e.actor_id
        ? `revoked a key that belongs to ${other(e, 'user_id', n)}`
        : 'revoked a key',
  },
  'workspace.updated': {
    name: 'Workspace changed',
    describe: (e) => `changed the workspace:${quoted(e.data, 'name')} at /${text(e.data, 'slug')}`,
  },
  'policy.changed': { name: 'Agent rules', describe: () => 'changed the rules for agents' },
  'budgets.changed': {
    name: 'Budgets changed',
    describe: (e) => {
      const n = Array.isArray(e.data.data) ? e.data.data.length : 0;
      return n ? `set ${plural(n, 'budget')}` : 'removed all budgets';
    },
  },
  'prompt_profiles.changed': {
    name: 'Styles changed',
    describe: () => 'changed the reply styles',
  },
  'model.changed': {
    name: 'Model connected',
    describe: (e) => `connected the model server ${text(e.data, 'base_url')}`,
  },
  'model.removed': {
    name: 'Model disconnected',
    describe: (e) => `disconnected the model server ${text(e.data, 'base_url')}`,
  },
  'embeddings.changed': {
    name: 'Search model chosen',
    describe: (e) => `chose ${text(e.data, 'model')} for search by meaning`,
  },
  'embeddings.removed': {
    name: 'Search model removed',
    describe: (e) => `removed ${text(e.data, 'model')}, the model for search by meaning`,
  },
  'memory.published': { name: 'Memory published', describe: () => 'published a memory for the workspace' },
  'memory.unpublished': {
    name: 'Memory unpublished',
    describe: () => 'deleted a memory that was published for the workspace',
  },
  'memory.deleted': {
    name: 'Memories forgotten',
    describe: (e, n) =>
      `forgot ${typeof e.data.deleted === 'number' ? plural(e.data.deleted, 'memory', 'memories') : 'memories'} about ${e.target ? n.person(e.target) : 'someone'}`,
  },
  'compaction.deleted': {
    name: 'Summary deleted',
    describe: () => 'deleted a summary of messages for agents',
  },
  'agent.created': { name: 'Agent created', describe: (e, n) => `created ${agent(e, n)}` },
  'agent.updated': {
    name: 'Agent changed',
    describe: (e, n) =>
      `changed ${agent(e, n)}${typeof e.data.version === 'number' ? ` (version ${e.data.version})` : ''}`,
  },
  'agent.accepted': {
    name: 'Agent accepted',
    describe: (e, n) => `accepted what ${agent(e, n)} is told`,
  },
  'agent.status_changed': {
    name: 'Agent status',
    describe: (e, n) => `${STATUS[text(e.data, 'status')] ?? 'changed the status of'} ${agent(e, n)}`,
  },
  'agent.made_default': {
    name: 'Default agent',
    describe: (e, n) => `made ${agent(e, n)} the default agent`,
  },
  'agent.deleted': { name: 'Agent deleted', describe: (e, n) => `deleted ${agent(e, n)} permanently` },
  'persona.created': {
    name: 'Character created',
    describe: (e) => `created the character${quoted(e.data, 'name')}`,
  },
  'persona.updated': {
    name: 'Character changed',
    describe: (e) =>
      `changed the character${quoted(e.data, 'name')}${typeof e.data.version === 'number' ? ` (version ${e.data.version})` : ''}`,
  },
  'persona.deleted': {
    name: 'Character deleted',
    describe: (e) => `deleted the character${quoted(e.data, 'name')}`,
  },
  'skill.created': { name: 'Skill created', describe: (e) => `created the skill${quoted(e.data, 'name')}` },
  'skill.updated': {
    name: 'Skill changed',
    describe: (e) =>
      `changed the skill${quoted(e.data, 'name')}${typeof e.data.version === 'number' ? ` (version ${e.data.version})` : ''}`,
  },
  'skill.deleted': { name: 'Skill deleted', describe: (e) => `deleted the skill${quoted(e.data, 'name')}` },
  'file.changed': { name: 'File changed', describe: (e) => `changed ${e.target ?? 'a shared file'}` },
  'file.deleted': { name: 'File deleted', describe: (e) => `deleted ${e.target ?? 'a shared file'}` },
  'sandbox_policy.created': {
    name: 'Sandbox created',
    describe: (e) => `created the sandbox policy${quoted(e.data, 'name')}`,
  },
  'sandbox_policy.changed': {
    name: 'Sandbox changed',
    describe: (e) => `changed the sandbox policy${quoted(e.data, 'name')}`,
  },
  'sandbox_policy.deleted': {
    name: 'Sandbox deleted',
    describe: (e) => `deleted the sandbox policy${quoted(e.data, 'name')}`,
  },
  'channel.archived': { name: 'Channel archived', describe: (e, n) => `archived ${channel(e, n)}` },
  'channel.unarchived': { name: 'Channel unarchived', describe: (e, n) => `unarchived ${channel(e, n)}` },
  'channel.member_removed': {
    name: 'Channel removal',
    describe: (e, n) => `removed ${other(e, 'user_id', n)} from ${channel(e, n)}`,
  },
  'task.retried': {
    name: 'Task retried',
    describe: () => 'retried a task that someone else requested',
  },
  'tool.created': { name: 'Tool added', describe: (e) => `added the tool${quoted(e.data, 'name')}` },
  'tool.updated': { name: 'Tool changed', describe: (e) => `changed the tool${quoted(e.data, 'name')}` },
  'tool.secret_changed': {
    name: 'Secret changed',
    describe: (e) => `changed the secret of the tool${quoted(e.data, 'name')}`,
  },
  'tool.secret_deleted': {
    name: 'Secret deleted',
    describe: (e) => `deleted the secret of the tool${quoted(e.data, 'name')}`,
  },
  'tool.deleted': { name: 'Tool deleted', describe: (e) => `deleted the tool${quoted(e.data, 'name')}` },
  'tool.function_accepted': {
    name: 'Function accepted',
    describe: (e) =>
      `accepted the function${quoted(e.data, 'function')} of the tool${quoted(e.data, 'name')}`,
  },
  'tool.function_withdrawn': {
    name: 'Function withdrawn',
    describe: (e) =>
      `withdrew the function${quoted(e.data, 'function')} of the tool${quoted(e.data, 'name')}`,
  },
  'action.approved': {
    name: 'Action approved',
    describe: (e) => `approved the action ${text(e.data, 'function')} of an agent`,
  },
  'action.denied': {
    name: 'Action denied',
    describe: (e) => `denied the action ${text(e.data, 'function')} of an agent`,
  },
  'action.started': {
    name: 'Action started',
    describe: (e) => `had an agent run the approved action ${text(e.data, 'function')}`,
  },
  'action.settled': {
    name: 'Action settled',
    describe: (e) =>
      `stated that the action ${text(e.data, 'function')} of an agent ${text(e.data, 'outcome') === 'happened' ? 'happened' : 'did not happen'}`,
  },
  'grant.deleted': {
    name: 'Permission revoked',
    describe: () => 'revoked a permission for an agent',
  },
  'schedule.updated': {
    name: 'Schedule changed',
    describe: (e, n) => `paused or resumed a schedule of ${other(e, 'owner_id', n)}`,
  },
  'schedule.deleted': {
    name: 'Schedule deleted',
    describe: (e, n) => `deleted a schedule of ${other(e, 'owner_id', n)}`,
  },
  'workflow.created': {
    name: 'Workflow created',
    describe: (e) => `created the workflow${quoted(e.data, 'name')}`,
  },
  'workflow.updated': {
    name: 'Workflow changed',
    describe: (e) =>
      `changed the workflow${quoted(e.data, 'name')}${typeof e.data.version === 'number' ? ` (version ${e.data.version})` : ''}`,
  },
  'run.cancelled': {
    name: 'Run stopped',
    describe: () => 'stopped a run that someone else started',
  },
  'run.resumed': {
    name: 'Run resumed',
    describe: () => 'resumed a run that someone else started',
  },
  'vector_store.created': {
    name: 'Collection created',
    describe: (e) => `created the collection${quoted(e.data, 'name')}`,
  },
  'vector_store.updated': {
    name: 'Collection changed',
    describe: (e) =>
      `changed who can add to the collection${quoted(e.data, 'name')}, or whether agents trust it`,
  },
  'vector_store.deleted': {
    name: 'Collection deleted',
    describe: (e) => `deleted the collection${quoted(e.data, 'name')}`,
  },
  'hook.created': {
    name: 'Webhook created',
    describe: () => 'created a webhook',
  },
  'hook.updated': {
    name: 'Webhook changed',
    describe: () => 'changed a webhook',
  },
  'hook.rotated': {
    name: 'Address changed',
    describe: () => 'gave a webhook a new address',
  },
  'hook.deleted': {
    name: 'Webhook deleted',
    describe: () => 'deleted a webhook',
  },
  'bot.created': {
    name: 'Bot created',
    describe: (e) => `created the bot${quoted(e.data, 'name')}`,
  },
  'bot.deleted': {
    name: 'Bot deleted',
    describe: (e) => `deleted the bot${quoted(e.data, 'name')}`,
  },
  'bot.added': {
    name: 'Bot added',
    describe: () => 'added a bot to a channel',
  },
  'bot.removed': {
    name: 'Bot removed',
    describe: () => 'removed a bot from a channel',
  },
  'bot.key_created': {
    name: 'Bot key created',
    describe: (e) => `created the key${quoted(e.data, 'name')} of a bot`,
  },
  'bot.key_deleted': {
    name: 'Bot key deleted',
    describe: () => 'deleted a key of a bot',
  },
  'member.merged': {
    name: 'People merged',
    describe: (e) => `merged the placeholder${quoted(e.data, 'name')} into a member`,
  },
  'import.created': {
    name: 'Import created',
    describe: () => 'created an import',
  },
  'import.updated': {
    name: 'Import changed',
    describe: () => 'changed the choices of an import',
  },
  'import.started': {
    name: 'Import started',
    describe: () => 'started an import',
  },
  'import.paused': {
    name: 'Import paused',
    describe: () => 'paused an import',
  },
  'import.resumed': {
    name: 'Import resumed',
    describe: () => 'resumed an import',
  },
  'import.undone': {
    name: 'Import undone',
    describe: () => 'undid an import',
  },
  'import.deleted': {
    name: 'Import deleted',
    describe: () => 'deleted an import',
  },
  'export.created': {
    name: 'Exported',
    describe: () => 'created an export',
  },
  'export.deleted': {
    name: 'Export deleted',
    describe: () => 'canceled an export, or deleted its archive',
  },
  'emoji.deleted': {
    name: 'Emoji deleted',
    describe: (e) => `deleted the emoji${quoted(e.data, 'name')}`,
  },
  'runner.created': {
    name: 'Runner added',
    describe: (e) => `added the runner${quoted(e.data, 'name')}`,
  },
  'runner.deleted': {
    name: 'Runner removed',
    describe: (e) => `removed the runner${quoted(e.data, 'name')}`,
  },
  'repository.updated': {
    name: 'Repository changed',
    describe: (e) =>
      text(e.data, 'state') === 'allowed'
        ? `decided where agents work on the repository${quoted(e.data, 'name')}`
        : `stopped work on the repository${quoted(e.data, 'name')}`,
  },
  'code.pushed': {
    name: 'Changes pushed',
    describe: () => 'pushed changes of an agent',
  },
  'bot.updated': {
    name: 'Bot changed',
    describe: (e) => `changed the bot${quoted(e.data, 'name')}`,
  },
  'server.backup_started': {
    name: 'Backup started',
    describe: () => 'started a backup of the server',
  },
  'server.drill_started': {
    name: 'Backup test',
    describe: () => 'started a test of the newest backup',
  },
  'server.resumed': {
    name: 'Agents started',
    describe: () => 'started the agents of the restored server',
  },
  'server.updated': {
    name: 'Server changed',
    describe: () => 'changed settings of the server',
  },
  'server.checked': {
    name: 'Server checked',
    describe: () => 'ran the checks of the server',
  },
  'server.mail_tested': { name: 'Email tested', describe: () => 'sent a test email' },
  'server.certificate_ordered': {
    name: 'Certificate ordered',
    describe: () => 'ordered a new certificate for the server',
  },
  'sign_in.link_created': {
    name: 'Sign-in link',
    describe: (e, n) => `created a link that signs in as ${person(e, n)}`,
  },
  'sign_in.changed': {
    name: 'Sign-in rules',
    describe: () => 'changed the rules for signing in',
  },
  'factor.added': { name: 'Factor added', describe: () => 'added a second factor' },
  'factor.removed': { name: 'Factor removed', describe: () => 'removed a second factor' },
  'factor.reset': {
    name: 'Factor reset',
    describe: (e, n) => `removed the second factors of ${person(e, n)}`,
  },
  'message.deleted': {
    name: 'Message deleted',
    describe: (e, n) => `deleted a message by ${other(e, 'author_id', n)}`,
  },
};
/** Includes actions of newer servers, which are shown by their names. */
const known: Partial<Record<string, Action>> = ACTIONS;
export const actionName = (action: string): string => known[action]?.name ?? action;
export const auditText = (e: AuditEntry, names: AuditNames): string =>
  known[e.action]?.describe(e, names) ?? `${e.action}${e.target ? ` ${e.target}` : ''}`;
