import { MemoryApi } from '../api/memory';
import { errorMessage } from '../api/problem';
import type { Thread } from '../api/types';
import { plural } from '../lib/time';
import type { Ui } from '../state/ui.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';

/** Maximum number counted: "100+ memories". */
const COUNTED_MAX = 100;

/** Turns the memory of a thread on or off; turning it off asks whether to forget what agents remember from it. */
export async function toggleMemory(
  thread: Thread,
  { ws, ui }: { ws: WorkspaceState; ui: Ui },
): Promise<void> {
  const on = thread.memory !== 'on';
  try {
    ws.learnThread(await ws.api.patchThread(thread.id, { memory: on ? 'on' : 'off' }));
    ui.show(on ? 'Agents remember this thread' : 'Agents no longer remember this thread');
    if (on) return;
    const query = { thread_id: thread.id, limit: COUNTED_MAX };
    const { data, has_more } = await ws.api.part(MemoryApi).list(query);
    if (!data.length) return;
    const count = has_more ? `${data.length}+ memories` : plural(data.length, 'memory', 'memories');
    ui.dialog = { name: 'forget-thread', thread, count };
  } catch (e) {
    ui.show(errorMessage(e));
  }
}
