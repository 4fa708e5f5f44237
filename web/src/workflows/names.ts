import { placeName } from '../schedules/choices';
import type { WorkspaceState } from '../state/workspace.svelte';
import type { Names } from './words';

/** Current names of the agents, channels, and people of a workspace. */
export const namesIn = (ws: WorkspaceState): Names => ({
  agent: (id) => ws.people.agentName(id),
  channel: (id) => placeName(ws, `channel:${id}`),
  person: (id) => ws.people.members.get(id)?.name ?? 'a former member',
});

/** Options for a channel: the user's channels except for direct ones, and the current one. */
export function roomOptions(ws: WorkspaceState, current: string | null): [string, string][] {
  const ids = new Set([...ws.channels.joined.map((c) => c.id), ...(current ? [current] : [])]);
  return [...ids].map((id) => [id, placeName(ws, `channel:${id}`)]);
}
