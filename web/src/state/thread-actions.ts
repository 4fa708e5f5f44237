import { errorMessage } from '../api/problem';
import type { Thread } from '../api/types';
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
