import type { Agent } from '../api/types';
import { agentName } from './text';

/** Binding of a thread or fork to an agent. */
export interface Binding {
  agent_id: string | null;
  agent_version: number | null;
  auto_reply: boolean;
}
export const UNBOUND: Binding = { agent_id: null, agent_version: null, auto_reply: false };

/** Responder of a conversation, according to what the user can see. */
export interface Responder {
  /**
   * `barred`: the bound agent is not available to the user, who may not even see it; `off`: it is turned off; `gone`:
   * it is archived.
   */
  state: 'nobody' | 'here' | 'off' | 'gone' | 'barred';
  id: string | null;
  name: string;
  /** True if the agent replies to messages without a mention. */
  auto: boolean;
  /** Agent that replies to the next message without a mention: the bound agent, or its fallback. */
  next: Agent | null;
  /** Version that replies here, if there is a newer one. */
  version: number | null;
  newest: number | null;
}

/** Known agents, and the user's access to them. */
export interface Agents {
  agentsById: ReadonlyMap<string, Agent>;
  hasAccess(agent: Agent): boolean;
}

/**
 * `fallback`: the workspace's default agent, which replies while the bound agent is turned off, and replaces an
 * archived one.
 */
export function resolveResponder(place: Binding, people: Agents, fallback: string | null): Responder {
  const { agentsById } = people;
  const hasAccess = (a: Agent) => people.hasAccess(a);
  const { agent_id: id, agent_version: version, auto_reply: auto } = place;
  const base = { id, auto, next: null, version: null, newest: null };
  if (!id) return { ...base, state: 'nobody', name: 'Agents reply when mentioned', auto: false };
  const agent = agentsById.get(id);
  if (!agent) return { ...base, state: 'barred', name: 'A restricted agent' };
  const name = agentName(agent);
  if (agent.status !== 'archived' && !hasAccess(agent)) return { ...base, state: 'barred', name };
  if (agent.status !== 'active') {
    const other = fallback === id ? undefined : agentsById.get(fallback ?? '');
    const canReply = auto && other?.status === 'active' && hasAccess(other);
    return {
      ...base,
      state: agent.status === 'inactive' ? 'off' : 'gone',
      name,
      next: canReply ? other : null,
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

/** One-line description, also for screen readers. */
export function responderText(s: Responder): string {
  if (s.state === 'nobody') return 'Agents reply when mentioned';
  if (s.state === 'off') return `${s.name}, turned off`;
  if (s.state === 'gone') return `${s.name}, no longer available`;
  if (s.state === 'barred') return `${s.name}, not available to you`;
  return s.auto ? s.name : `${s.name}, only when mentioned`;
}
