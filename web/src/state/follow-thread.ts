import { errorMessage } from '../api/problem';
import type { Thread } from '../api/types';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

/** Follows the thread (`all`), mutes it (`none`), or restores the default of mentions only (null). */
export async function setFollow(
  thread: Thread,
  level: 'all' | 'none' | null,
  { ws, ui }: { ws: WorkspaceState; ui: Ui },
): Promise<void> {
  try {
    ws.threads.setFollow(thread.id, await ws.api.follow(thread.id, level));
    ui.announce(
      level === 'all'
        ? 'Following this thread'
        : level
          ? 'Thread muted'
          : 'You will only be notified of mentions in this thread',
    );
  } catch (e) {
    ui.show(errorMessage(e));
  }
}
