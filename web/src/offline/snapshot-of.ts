import type { Member, Snapshot } from '../api/types';
import { isOpen } from '../state/forks.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';

/** The state of a workspace at this moment, as a snapshot of the server, without presence. */
export function snapshotOf(ws: WorkspaceState): Snapshot {
  const { epoch, seq } = ws.position;
  return {
    epoch,
    seq,
    me: ws.people.me,
    workspace: ws.workspace,
    members: [...ws.people.members.values()] satisfies Member[],
    bots: [...ws.people.bots.values()],
    channels: [...ws.channels.map.values()] as Snapshot['channels'],
    agents: [...ws.people.agentsById.values()],
    agents_truncated: false,
    open_forks: [...ws.forks.map.values()].filter(
      (f) => isOpen(f) && ws.channels.map.has(f.channel_id),
    ) as Snapshot['open_forks'],
    muted_threads: [...ws.threads.muted],
    inbox: { open: ws.inbox.open, seq: ws.inbox.seq },
    active_tasks: ws.tasks.active,
    presence: [],
    limits: { upload_bytes_max: ws.fileBytesMax },
    agents_state: ws.agentsState,
    checklist: ws.checklist,
  };
}
