import { agentName } from '../lib/text';
import type { Names } from '../state/agents-diff';
import type { AgentsHome } from './home.svelte';

/** Current names of the people and agents that a field refers to. */
export const namesIn = (home: AgentsHome): Names => ({
  person: (id) => home.ws.people.members.get(id)?.name ?? 'a former member',
  agent: (id) => {
    const agent = home.list.get(id);
    return agent ? agentName(agent) : 'a deleted agent';
  },
});
