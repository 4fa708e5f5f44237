import { InboxApi } from '../api/inbox';
import { errorMessage } from '../api/problem';
import type { Ui } from '../state/ui.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';
import { untilText } from './words';

/** Saves a message in the inbox, with a reminder if `until` is set; this can be undone from the toast. */
export async function saveMessage(
  message: string,
  until: string | null,
  { ws, ui }: { ws: WorkspaceState; ui: Pick<Ui, 'show'> },
): Promise<void> {
  const api = ws.api.part(InboxApi);
  try {
    await api.save(message, until);
    const undo = () => void api.unsave(message).catch((e: unknown) => ui.show(errorMessage(e)));
    const text = until ? `You will be reminded: ${untilText(until)}` : 'Saved in your inbox, under Later';
    ui.show(text, { label: 'Undo', run: undo });
  } catch (e) {
    ui.show(errorMessage(e));
  }
}
