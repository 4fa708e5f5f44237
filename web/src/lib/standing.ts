import type { Agent } from '../api/types';
import { agentName } from './text';

/** What a thread or a dive says of the agent that it is bound to. */
export interface Binding {
  agent_id: string | null;
  agent_version: number | null;
  auto_reply: boolean;
}
export const UNBOUND: Binding = { agent_id: null, agent_version: null, auto_reply: false };

/** Who answers in a place, as this person may know it. */
export interface Standing {
  /** `barred`: bound to an agent that does not answer this person, who may not even see it; `off`: to one that is turned off for now; `gone`: to one that is archived. */
  state: 'nobody' | 'here' | 'off' | 'gone' | 'barred';
  id: string | null;
  name: string;
  /** It answers what mentions nobody. */
  auto: boolean;
  /** Who answers the next message that mentions nobody: the bound agent, or who stands in for it. */
  next: Agent | null;
  /** The version that answers here, while there is a newer one. */
  version: number | null;
  newest: number | null;
}

/** What is known of agents, and what this person may do with them. */
export interface Agents {
  agents: ReadonlyMap<string, Agent>;
  permits(agent: Agent): boolean;
}

/** `fallback`: the workspace's default agent, which replies while a place's own is turned off, and takes over when it is archived. */
export function standing(place: Binding, people: Agents, fallback: string | null): Standing {
  const { agents } = people;
  const permits = (a: Agent) => people.permits(a);
  const { agent_id: id, agent_version: version, auto_reply: auto } = place;
  const none = { id, auto, next: null, version: null, newest: null };
  if (!id) return { ...none, state: 'nobody', name: 'Agents: when mentioned', auto: false };
  const agent = agents.get(id);
  if (!agent) return { ...none, state: 'barred', name: 'A restricted agent' };
  const name = agentName(agent);
  if (agent.status !== 'archived' && !permits(agent)) return { ...none, state: 'barred', name };
  if (agent.status !== 'active') {
    const other = fallback === id ? undefined : agents.get(fallback ?? '');
    const stands = auto && other?.status === 'active' && permits(other);
    return {
      ...none,
      state: agent.status === 'inactive' ? 'off' : 'gone',
      name,
      next: stands ? other : null,
    };
  }
  const old = version !== null && version < agent.version;
  return {
    state: 'here',
    id,
    name,
    auto,
    next: auto ? agent : null,
    version: old ? version : null,
    newest: old ? agent.version : null,
  };
}

/** In one line, for who looks and for who listens. */
export function standingWords(s: Standing): string {
  if (s.state === 'nobody') return 'Agents: when mentioned';
  if (s.state === 'off') return `${s.name}, turned off`;
  if (s.state === 'gone') return `${s.name}, no longer available`;
  if (s.state === 'barred') return `${s.name}, which does not answer you`;
  return s.auto ? s.name : `${s.name}, only when mentioned`;
}
