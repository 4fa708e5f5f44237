import { agentName } from '../lib/text';
import type { Names } from '../state/agents-diff';
import type { AgentsContext } from './agents-context.svelte';

/** Current names of the people, agents, and personas that a field refers to. */
export const namesIn = (context: AgentsContext): Names => ({
  person: (id) => context.ws.people.members.get(id)?.name ?? 'a former member',
  agent: (id) => {
    const agent = context.list.get(id);
    return agent ? agentName(agent) : 'a deleted agent';
  },
  persona: (id) => context.personas?.find((p) => p.id === id)?.name ?? 'a persona',
});
