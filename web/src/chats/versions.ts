import type { Message } from '../api/types';
import { to, type Router } from '../lib/router.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';

/** Change with which a message is run again; omitted fields are as before. */
export interface Rerun {
  content?: string;
  agent_id?: string;
}

/** Path to a version of a chat, with its version of the message if that is known. */
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
