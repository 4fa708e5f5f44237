import { errorMessage } from '../api/problem';
import type { Thread } from '../api/types';
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
