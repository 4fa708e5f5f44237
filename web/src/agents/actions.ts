import type { AgentProfile } from '../api/agent-types';
import { zip } from '../lib/zip';
import { filesOf } from '../state/agents-import';
import type { AgentsContext } from './agents-context.svelte';
import { download } from '../lib/download';

/** Actions that the user can take on an agent as a whole. */
export interface Rights {
  duplicate: boolean;
  switchOn: boolean;
  switchOff: boolean;
  makeDefault: boolean;
  archive: boolean;
  bringBack: boolean;
  remove: boolean;
}
/**
 * Only admins change the status or the default, or delete an agent; the default agent cannot be archived or deleted.
 */
export function rightsFor(a: AgentProfile, context: AgentsContext): Rights {
  const admin = context.isAdmin;
  return {
    duplicate: context.mayWrite,
    switchOn: admin && a.status === 'inactive',
    switchOff: admin && a.status === 'active' && !a.is_default,
    makeDefault: admin && a.status === 'active' && !a.is_default && a.mentionable,
    archive: admin && a.status !== 'archived' && !a.is_default,
    bringBack: admin && a.status === 'archived',
    remove: admin && !a.is_default,
  };
}
export async function setStatus(
  a: AgentProfile,
  status: 'active' | 'inactive',
  context: AgentsContext,
): Promise<AgentProfile> {
  return context.api.patch(a.id, a.version, { status });
}
export async function archive(a: AgentProfile, context: AgentsContext): Promise<AgentProfile> {
  await context.api.archive(a.id, a.version);
  return context.api.get(a.id);
}
export async function makeDefault(a: AgentProfile, context: AgentsContext): Promise<AgentProfile> {
  const made = await context.api.makeDefault(a.id);
  void context.list.load(); // the previous default has changed
  return made;
}

export async function exportFiles(a: AgentProfile, context: AgentsContext): Promise<void> {
  const files = filesOf(await context.api.export(a.id));
  download(`${a.name}.zip`, zip(files.map((f) => ({ ...f, path: `${a.name}/${f.path}` }))));
}
export async function exportJson(a: AgentProfile, context: AgentsContext): Promise<void> {
  const text = JSON.stringify(await context.api.export(a.id), null, 2);
  download(`${a.name}.json`, new Blob([text + '\n'], { type: 'application/json' }));
}
