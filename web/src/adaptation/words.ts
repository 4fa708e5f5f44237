import type { AdaptationApi, AdaptationState } from '../api/adaptation';
import { threadTitle } from '../lib/text';
import type { WorkspaceState } from '../state/workspace.svelte';

/** Values that do not change how an agent replies. */
const NEUTRAL: readonly string[] = ['neutral', 'intermediate', 'moderate'];

/** A state and the line that shows it on the page. */
export interface ShownState {
  state: AdaptationState;
  /** Unique for each agent and conversation. */
  key: string;
  /** "Vibe in Launch plan: patient, expert" */
  text: string;
}

export interface ShownStates {
  list: ShownState[];
  /** Cursor of the older states; null if there are none. */
  cursor: string | null;
}

/** "patient, expert", or "neutral". */
export function traitsText(state: Pick<AdaptationState, 'mood' | 'user_skill' | 'task_complexity'>): string {
  const traits = [state.mood, state.user_skill, state.task_complexity];
  return traits.filter((trait) => !NEUTRAL.includes(trait)).join(', ') || 'neutral';
}

/** Title of the conversation, which is requested if this window has not loaded it. */
async function titleOf({ thread_id, fork_id }: AdaptationState, ws: WorkspaceState): Promise<string> {
  try {
    if (fork_id) return (ws.forks.get(fork_id) ?? (await ws.api.fork(fork_id))).title;
    return threadTitle(ws.threads.map.get(thread_id) ?? (await ws.api.thread(thread_id)));
  } catch {
    // The conversation was deleted, or the user can no longer read it.
  }
  return 'a conversation';
}

/** Loads the states after the cursor, or the newest ones. */
export async function shownStates(
  api: Pick<AdaptationApi, 'states'>,
  ws: WorkspaceState,
  cursor?: string,
): Promise<ShownStates> {
  const { data, next_cursor } = await api.states(cursor);
  const list = await Promise.all(
    data.map(async (state) => ({
      state,
      key: [state.agent_id, state.fork_id ?? state.thread_id].join(' '),
      text: `${ws.people.agentName(state.agent_id)} in ${await titleOf(state, ws)}: ${traitsText(state)}`,
    })),
  );
  return { list, cursor: next_cursor ?? null };
}
