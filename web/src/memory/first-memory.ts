import { CompactionsApi } from '../api/compactions';
import { MemoryApi, type Memory } from '../api/memory';
import { to, type Router } from '../lib/router.svelte';
import type { Ui } from '../state/ui.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';

interface Deps {
  ws: WorkspaceState;
  ui: Ui;
  router: Router;
}
const READ_MAX = 20;
/** Older entries are not announced: the user was notified on another device. */
const NEWS_MS = 24 * 60 * 60_000;
const UNKNOWN = 'An agent';

/** Name of the agent that created an automatic entry. */
async function agentOf(entry: Memory, ws: WorkspaceState): Promise<string> {
  if (entry.agent_id) return ws.people.agentName(entry.agent_id);
  if (!entry.compaction_id) return UNKNOWN;
  try {
    const { task_id } = await ws.api.part(CompactionsApi).get(entry.compaction_id);
    const { agent_id } = await ws.api.task(task_id);
    return agent_id ? ws.people.agentName(agent_id) : UNKNOWN;
  } catch {
    return UNKNOWN; // the record was deleted
  }
}

/** Notifies the user once, while the page is visible, that agents have begun to remember things about them. */
export function watchFirstMemory({ ws, ui, router }: Deps): () => void {
  const key = `openvibe.remembered.${ws.id}.${ws.myId}`;
  if (ws.store.get(key)) return () => undefined;
  let ended = false;
  const check = async () => {
    if (ended || document.visibilityState !== 'visible') return;
    try {
      const { data } = await ws.api.part(MemoryApi).list({ user_id: 'me', limit: READ_MAX });
      const made = data.filter((e) => e.origin === 'auto');
      const [newest] = made;
      if (!newest || ended) return;
      end();
      ws.store.set(key, '1');
      if (made.some((e) => Date.parse(e.created_at) < Date.now() - NEWS_MS)) return;
      const review = () => router.go(to.settings(ws.slug, 'memory'));
      const action = { label: 'Review', run: review };
      ui.show(`${await agentOf(newest, ws)} remembered something about you`, action);
    } catch {
      // The next entry, or the next visit, tries again.
    }
  };
  const onvisible = () => void check();
  const stop = ws.onEvent((e) => {
    if (e.type === 'memory.changed' && e.data.action === 'created' && e.data.scope !== 'conversation')
      void check();
  });
  document.addEventListener('visibilitychange', onvisible);
  const end = () => {
    ended = true;
    stop();
    document.removeEventListener('visibilitychange', onvisible);
  };
  void check();
  return end;
}
