import type { Fork } from '../api/types';
import { to } from '../lib/router.svelte';
import type { WorkspaceState } from './workspace.svelte';

/** Path of a fork beside its thread; null while its channel is unknown. */
export function pathTo(fork: Fork, ws: WorkspaceState): string | null {
  const channel = ws.channels.map.get(fork.channel_id);
  return channel ? to.fork(ws.slug, ws.channels.segment(channel), fork.thread_id, fork.id) : null;
}
/**
 * Path to the message that a fork starts from, or to its resolution message; null while its channel is
 * unknown. `keep` keeps the panel open, which would cover the message on narrow screens.
 */
export function pathToMessage(fork: Fork, message: string, ws: WorkspaceState, keep: boolean): string | null {
  const channel = ws.channels.map.get(fork.channel_id);
  if (!channel) return null;
  const thread = to.thread(ws.slug, ws.channels.segment(channel), fork.thread_id);
  return `${thread}${keep ? `?panel=dive:${fork.id}` : ''}#m-${message}`;
}
