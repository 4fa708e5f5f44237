import { CompactionsApi, type Summarized } from '../api/compactions';
import type { Ui } from '../state/ui.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';
import { problemText } from './words';

/** Requests a summary of the earlier messages of a conversation. */
export async function summarize(
  conversation: Summarized,
  { ws, ui }: { ws: WorkspaceState; ui: Ui },
): Promise<void> {
  try {
    ws.learnTasks([await ws.api.part(CompactionsApi).start(conversation)]);
    ui.show('Agents will read a summary of the earlier messages');
  } catch (e) {
    ui.show(problemText(e));
  }
}
