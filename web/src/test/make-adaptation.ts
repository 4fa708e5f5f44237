/** API adaptation states for unit tests. */
import type { AdaptationState } from '../api/adaptation';

export const adaptationState = (x: Partial<AdaptationState> = {}): AdaptationState =>
  ({
    object: 'adaptation_state',
    agent_id: 'agent_vibe',
    thread_id: 'thread_1',
    fork_id: null,
    mood: 'neutral',
    user_skill: 'intermediate',
    task_complexity: 'moderate',
    last_event: null,
    scores: [],
    ...x,
  }) as AdaptationState;
