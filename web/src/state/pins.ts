import { PinsApi } from '../api/pins';
import { errorMessage } from '../api/problem';
import type { Message } from '../api/types';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

/** True if the user can pin the message, or unpin it. */
export const canPin = (m: Message, ws: WorkspaceState): boolean =>
  ws.people.canWrite && !ws.people.isGuest && !m.fork_id && m.kind !== 'notice' && m.state === 'complete';

/** Pins a message, or unpins it. The event changes the message on the screen. */
export async function togglePin(m: Message, { ws, ui }: { ws: WorkspaceState; ui: Ui }): Promise<void> {
  const api = ws.api.part(PinsApi);
  try {
    if (m.metadata.pinned_by) {
      await api.unpin(m.id);
      ui.show('Unpinned');
    } else {
      await api.pin(m.id);
      ui.show('Pinned: the channel’s About lists it');
    }
  } catch (e) {
    ui.show(errorMessage(e));
  }
}
