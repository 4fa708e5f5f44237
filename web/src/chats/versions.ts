import type { Message, Thread } from '../api/types';
import { to, type Router } from '../lib/router.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';

/** Change with which a message is run again; omitted fields are as before. */
export interface Rerun {
  content?: string;
  agent_id?: string;
}

/** Address of a version of a chat, at its version of a message if that is known. */
export function versionPath(
  version: string | undefined,
  message: Message,
  { channels, slug, threads }: WorkspaceState,
): string | null {
  const channel = channels.map.get(message.channel_id);
  if (!version || !channel) return null;
  const base = threads.map.get(message.thread_id)?.variant_of;
  const isFirst = version === (base?.thread_id ?? message.thread_id);
  const at = isFirst ? (base?.message_id ?? message.id) : threads.map.get(version)?.root_message_id;
  return to.thread(slug, channels.segment(channel), version) + (at ? `#m-${at}` : '');
}

/** Checks whether the user can run a message of a chat again: in a variant, only its first one. */
export const canRunAgain = (m: Message, thread: Thread): boolean =>
  !m.fork_id && m.kind === 'text' && !m.deleted_at && (!thread.variant_of || m.id === thread.root_message_id);

/** Runs a message again in a new variant, and opens it. A repeated `client_id` returns the first variant. */
export async function runAgain(
  m: Message,
  change: Rerun,
  client_id: string,
  { ws, router }: { ws: WorkspaceState; router: Router },
): Promise<void> {
  const { version } = ws.threads;
  const { thread, message, tasks } = await ws.api.runAgain(m.thread_id, {
    message_id: m.id,
    client_id,
    ...change,
  });
  ws.learnTasks(tasks);
  ws.learnThread({ ...thread, root_message: message, last_message: message }, version);
  const channel = ws.channels.map.get(thread.channel_id);
  if (channel) router.go(to.thread(ws.slug, ws.channels.segment(channel), thread.id));
}

/**
 * Threads with one entry for each chat and its variants: the first unread one in the order of the list, or else
 * the first one, which has the latest activity.
 */
export function oncePerChat(threads: readonly Thread[]): Thread[] {
  const shown = new Map<string, Thread>();
  for (const t of threads) {
    const chat = t.variant_of?.thread_id ?? t.id;
    const known = shown.get(chat);
    if (!known || (!known.unread_count && t.unread_count)) shown.set(chat, t);
  }
  return [...shown.values()];
}

/** The first chat of a variant, if it is loaded; otherwise the thread itself. */
export const firstOf = (thread: Thread, { threads }: Pick<WorkspaceState, 'threads'>): Thread =>
  (thread.variant_of && threads.map.get(thread.variant_of.thread_id)) || thread;
