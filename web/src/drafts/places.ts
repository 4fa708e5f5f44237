import { to } from '../lib/router.svelte';
import { threadTitle } from '../lib/text';
import { pathTo } from '../state/fork-paths';
import type { WorkspaceState } from '../state/workspace.svelte';

/** Where the message of a draft would be posted. */
export interface DraftTarget {
  title: string;
  /** Kind of the conversation, and its channel. */
  where: string;
  /** Page with its composer; null if it is unknown. */
  path: string | null;
}

/** ID of the thread or fork that has to be loaded to show a draft. */
export function unknownOf(place: string, ws: WorkspaceState): { thread: string } | { fork: string } | null {
  const id = place.slice(2);
  if (place.startsWith('t:') && !ws.threads.map.has(id)) return { thread: id };
  if (place.startsWith('d:') && !ws.forkActions.get(id)) return { fork: id };
  return null;
}

export function targetOf(place: string, ws: WorkspaceState): DraftTarget {
  const id = place.slice(2);
  const channelText = (channel: string) => {
    const found = ws.channels.map.get(channel);
    return found ? `${found.kind === 'direct' ? '' : '#'}${ws.channels.title(found)}` : '';
  };
  const within = (what: string, channel: string) => [what, channelText(channel)].filter(Boolean).join(' in ');
  if (place.startsWith('d:')) {
    const fork = ws.forkActions.get(id);
    if (!fork) return { title: 'Deep dive', where: '', path: null };
    return { title: fork.title, where: within('Deep dive', fork.channel_id), path: pathTo(fork, ws) };
  }
  if (place.startsWith('t:')) {
    const thread = ws.threads.map.get(id);
    if (!thread) return { title: 'Thread', where: '', path: null };
    const channel = ws.channels.map.get(thread.channel_id);
    return {
      title: threadTitle(thread),
      where: within('Reply', thread.channel_id),
      path: channel ? to.thread(ws.slug, ws.channels.segment(channel), id) : null,
    };
  }
  const channel = ws.channels.map.get(id);
  if (!channel) return { title: 'Channel', where: '', path: null };
  return {
    title: channelText(id),
    where: channel.kind === 'direct' ? 'Direct message' : 'New thread',
    path: to.channel(ws.slug, ws.channels.segment(channel)),
  };
}
