import type { WorkspacePolicy } from '../api/agent-types';
import { AgentsApi } from '../api/agents';
import { MemoryApi, type MemorySettings } from '../api/memory';
import type { WorkspaceState } from '../state/workspace.svelte';

/** Switches of the server, the workspace, and the user. */
export interface MemoryRules {
  own: MemorySettings;
  policy: WorkspacePolicy;
}
export async function readRules(ws: WorkspaceState): Promise<MemoryRules> {
  const [own, policy] = await Promise.all([
    ws.api.part(MemoryApi).settings(),
    ws.api.part(AgentsApi).policy(ws.id),
  ]);
  return { own, policy };
}

/** Owner of memories: the tabs of the page. */
export type MemoryOwner = 'mine' | 'workspace' | 'conversations' | 'agents';
/** The first switch above the user's own that stops these memories, and who can change it; blank if none does. */
export function stopText(owner: MemoryOwner, { own, policy: { memory } }: MemoryRules, name: string): string {
  if (!own.server_enabled)
    return 'This server remembers nothing. An operator can turn memory on with OPENVIBE_MEMORY.';
  const off = (what: string) =>
    `${name} has turned ${what} off. An admin can turn it on in Settings › Told to all.`;
  if (!memory.enabled) return off('memory');
  if (owner === 'mine' && !memory.user && !memory.persona) return off('memory about people');
  return owner === 'workspace' && !memory.organization ? off('the workspace’s memory') : '';
}
/** True if agents can remember something about the user. */
export const remembersMe = ({ own, policy: { memory } }: MemoryRules): boolean =>
  own.server_enabled && own.enabled && memory.enabled && memory.user;

const readAt = new WeakMap<WorkspaceState, number>();
const KNOWN_MS = 60_000;
/** The switches for menus and dialogs, read again after a minute; null until they are known. */
export function rulesOf(ws: WorkspaceState): MemoryRules | null {
  if (Date.now() - (readAt.get(ws) ?? 0) > KNOWN_MS) {
    readAt.set(ws, Date.now());
    readRules(ws).then(
      (rules) => (ws.memoryRules = rules),
      () => undefined, // the server decides
    );
  }
  return ws.memoryRules;
}
