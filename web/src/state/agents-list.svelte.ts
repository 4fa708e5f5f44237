import { errorMessage } from '../api/problem';
import type { Agent } from '../api/agent-types';
import { agentName } from '../lib/text';
import type { People } from './people.svelte';

export interface ListApi {
  all(): Promise<Agent[]>;
}
export type StatusFilter = 'in-use' | 'active' | 'inactive' | 'archived';
/** Maximum depth: a base, its child, and the child's child. */
const LEVELS_MAX = 3;

/** Agents of the workspace that the user can see: loaded once, then updated by events. */
export class AgentList {
  status = $state<'loading' | 'ready' | 'error'>('loading');
  problem = $state('');
  filter = $state<StatusFilter>('in-use');
  text = $state('');
  #read = $state.raw<Agent[]>([]);
  #gone = $state.raw<ReadonlySet<string>>(new Set());
  #api: ListApi;
  #people: People;

  constructor(api: ListApi, people: People) {
    this.#api = api;
    this.#people = people;
  }

  /** Default agent first, then by name. */
  readonly all = $derived.by(() => {
    const map = new Map(this.#read.map((a) => [a.id, a]));
    for (const a of this.#people.agentsById.values())
      if ((map.get(a.id)?.version ?? 0) <= a.version) map.set(a.id, a);
    return [...map.values()]
      .filter((a) => !this.#gone.has(a.id))
      .sort(
        (a, b) => Number(b.is_default) - Number(a.is_default) || agentName(a).localeCompare(agentName(b)),
      );
  });
  readonly shown = $derived.by(() => {
    const words = this.text.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (a: Agent) => {
      const said = [a.name, a.display_name, a.description, ...a.capabilities].join(' ').toLowerCase();
      return words.every((w) => said.includes(w.replace(/^@/, '')));
    };
    return this.all.filter(
      (a) => (this.filter === 'in-use' ? a.status !== 'archived' : a.status === this.filter) && fits(a),
    );
  });
  readonly counts = $derived.by(() => {
    const of = (s: Agent['status']) => this.all.filter((a) => a.status === s).length;
    const [active, inactive, archived] = [of('active'), of('inactive'), of('archived')];
    return { 'in-use': active + inactive, active, inactive, archived };
  });

  async load(): Promise<void> {
    try {
      this.#read = await this.#api.all();
      this.#gone = new Set();
      this.status = 'ready';
    } catch (e) {
      this.problem = errorMessage(e);
      if (this.status !== 'ready') this.status = 'error';
    }
  }
  /** Applies the response to a change, before its event arrives. */
  put(agent: Agent): void {
    this.#read = [...this.#read.filter((a) => a.id !== agent.id), agent];
    this.#people.agentsById.set(agent.id, agent);
  }
  /** Removes an agent that was permanently deleted, for which there is no event. */
  forget(id: string): void {
    this.#gone = new Set([...this.#gone, id]);
    this.#people.agentsById.delete(id);
  }

  get(id: string): Agent | undefined {
    return this.all.find((a) => a.id === id);
  }
  children(id: string): Agent[] {
    return this.all.filter((a) => a.base_profile_id === id);
  }
  #height(id: string): number {
    return 1 + Math.max(0, ...this.children(id).map((c) => this.#height(c.id)));
  }
  /** The agent's bases, from the root, without the agent itself. */
  above(id: string | null): Agent[] {
    const chain: Agent[] = [];
    for (let at = id ? this.get(id) : undefined; at && chain.length <= LEVELS_MAX;) {
      chain.unshift(at);
      at = at.base_profile_id ? this.get(at.base_profile_id) : undefined;
    }
    return chain;
  }
  /** Possible bases: no cycles, at most three levels, not archived. */
  basesFor(id: string | null): Agent[] {
    const below = id ? this.#height(id) : 1;
    return this.all.filter((a) => {
      const chain = this.above(a.id);
      return a.status !== 'archived' && !chain.some((c) => c.id === id) && chain.length + below <= LEVELS_MAX;
    });
  }
}
