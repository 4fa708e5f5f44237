import type { Message } from '../api/types';
import { to } from '../lib/router.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';

/** Path at which a message is shown; null while its channel is unknown. */
export function pathOf(m: Message, { slug, channels }: WorkspaceState): string | null {
  const channel = channels.map.get(m.channel_id);
  if (!channel) return null;
  const segment = channels.segment(channel);
  return m.fork_id
    ? to.fork(slug, segment, m.thread_id, m.fork_id, m.id)
    : `${to.thread(slug, segment, m.thread_id)}#m-${m.id}`;
}
