import { errorMessage } from '../api/problem';
import type { Message, Thread } from '../api/types';
import { to, type Router } from '../lib/router.svelte';
import { threadTitle } from '../lib/text';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

interface ThreadActionDeps {
  ws: WorkspaceState;
  ui: Ui;
}

export async function renameThread(thread: Thread, title: string, { ws }: ThreadActionDeps): Promise<void> {
  ws.learnThread(await ws.api.patchThread(thread.id, { title: title.trim() || null }));
}

/** Archives or unarchives a thread; archiving can be undone from the toast. */
export async function setArchived(thread: Thread, archived: boolean, deps: ThreadActionDeps): Promise<void> {
  const { ws, ui } = deps;
  try {
    ws.learnThread(await ws.api.patchThread(thread.id, { status: archived ? 'archived' : 'open' }));
    const undo = { label: 'Undo', run: () => void setArchived(thread, false, deps) };
    const words = `“${threadTitle(thread)}” is ${archived ? 'archived' : 'unarchived'}`;
    ui.show(words, archived ? undo : null);
  } catch (e) {
    ui.show(errorMessage(e));
  }
}

/** Checks whether this is the user's own chat with an agent, which can be deleted. */
export function isChat(thread: Thread, ws: WorkspaceState): boolean {
  const channel = ws.channels.map.get(thread.channel_id);
  return channel?.kind === 'direct' && channel.agent_id !== null && (channel.member_ids?.length ?? 0) <= 1;
}

/** Deletes a chat with its variants, or a variant, for good, and leaves it if it is on screen. */
export async function deleteChat(
  thread: Thread,
  { ws, ui, router }: ThreadActionDeps & { router: Router },
): Promise<void> {
  const { route } = router.place;
  const shown = route.name === 'thread' ? ws.threads.map.get(route.thread) : undefined;
  await ws.api.deleteThread(thread.id);
  const channel = ws.channels.map.get(thread.channel_id);
  if (channel && (shown?.id === thread.id || shown?.variant_of?.thread_id === thread.id)) {
    const segment = ws.channels.segment(channel);
    const first = thread.variant_of?.thread_id;
    router.go(first ? to.thread(ws.slug, segment, first) : to.channel(ws.slug, segment));
  }
  ws.forgetThread(thread.id, thread.channel_id);
  ui.show(`“${threadTitle(thread)}” is deleted`);
}

/** Checks whether the user can run a message of a chat again: in a variant, only its first one. */
export const canRunAgain = (m: Message, thread: Thread): boolean =>
  !m.fork_id && m.kind === 'text' && !m.deleted_at && (!thread.variant_of || m.id === thread.root_message_id);

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
export const firstOf = (thread: Thread, { threads }: WorkspaceState): Thread =>
  (thread.variant_of && threads.map.get(thread.variant_of.thread_id)) || thread;
