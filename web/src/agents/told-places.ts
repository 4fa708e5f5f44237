import type { Channel } from '../api/types';
import { threadTitle } from '../lib/text';
import type { WorkspaceState } from '../state/workspace.svelte';

/** The channel where an agent is shown first: one that it is the agent of, or the user's start page. */
export function homeOf({ channels }: WorkspaceState, agent: string | null): Channel | undefined {
  const own = channels.rooms.find((c) => agent !== null && c.agent?.agent_id === agent);
  return own ?? channels.home(null);
}

/** A conversation in which an agent would reply. */
export interface ToldPlace {
  /** ID of a thread, or of a channel for a new thread there. */
  id: string;
  name: string;
}
/** Conversations to choose from, by group; `thread` is the one from which the page was opened. */
export function placesOf(ws: WorkspaceState, thread: string | null): [group: string, ToldPlace[]][] {
  const open = thread ? ws.threads.map.get(thread) : undefined;
  const groups: [string, ToldPlace[]][] = [
    ['This thread', thread ? [{ id: thread, name: open ? threadTitle(open) : 'The thread' }] : []],
    ['Channels', ws.channels.rooms.map((c) => ({ id: c.id, name: `#${c.name}` }))],
    ['Direct messages', ws.channels.directs.map((c) => ({ id: c.id, name: ws.channels.title(c) }))],
  ];
  return groups.filter(([, places]) => places.length > 0);
}
