import type { Agent } from '../api/types';

/** No language model replies in a workspace with these agents. */
export const lacksModel = (agents: readonly Agent[]): boolean =>
  agents.length > 0 && agents.every((a) => a.effective_model === null);
