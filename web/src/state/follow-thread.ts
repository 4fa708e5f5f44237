import { errorMessage } from '../api/problem';
import type { Fork, Thread } from '../api/types';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

type Level = 'all' | 'none' | null;
interface Deps {
  ws: WorkspaceState;
  ui: Ui;
}

/** Announcement of a level; null is the default one. */
export const levelText = (what: 'thread' | 'dive', level: Level): string => {
  if (level === 'all') return `Following this ${what}`;
  return level
    ? `${what === 'thread' ? 'Thread' : 'Dive'} muted`
    : `You will only be notified of mentions in this ${what}`;
};

/** Follows the thread (`all`), mutes it (`none`), or restores the default of mentions only (null). */
export async function setFollow(thread: Thread, level: Level, { ws, ui }: Deps): Promise<void> {
  try {
    ws.threads.setFollow(thread.id, await ws.api.follow(thread.id, level));
    ui.announce(levelText('thread', level));
  } catch (e) {
    ui.show(errorMessage(e));
  }
}
/** Like `setFollow`, for a deep dive. */
export async function setForkFollow(fork: Pick<Fork, 'id'>, level: Level, { ws, ui }: Deps): Promise<void> {
  try {
    ws.forkReads.followed(fork.id, await ws.api.followFork(fork.id, level));
    ui.announce(levelText('dive', level));
  } catch (e) {
    ui.show(errorMessage(e));
  }
}
