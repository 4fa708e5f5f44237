import type { Agent } from '../api/types';

/** True if none of a workspace's agents has a language model. */
export const lacksModel = (agents: readonly Agent[]): boolean =>
  agents.length > 0 && agents.every((a) => a.effective_model === null);
