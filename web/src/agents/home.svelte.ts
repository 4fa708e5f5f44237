import { AgentsApi } from '../api/agents';
import type { WorkspacePolicy } from '../api/agent-types';
import { device } from '../lib/storage';
import { AgentList } from '../state/agents-list.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';

/** What the agent pages of one workspace share: their calls, the list, and what this person may do. */
export class AgentsHome {
  readonly api: AgentsApi;
  readonly list: AgentList;
  readonly ws: WorkspaceState;
  policy = $state.raw<WorkspacePolicy | null>(null);

  constructor(ws: WorkspaceState) {
    this.ws = ws;
    this.api = ws.api.part(AgentsApi);
    this.list = new AgentList(this.api, ws.people);
    void this.list.load();
    void this.loadPolicy();
  }
  get isAdmin(): boolean {
    return this.ws.people.isAdmin;
  }
  /** Create, change, archive. Members may where the workspace lets them. */
  get mayWrite(): boolean {
    const { me } = this.ws.people;
    return me.role === 'admin' || (me.role === 'member' && this.policy?.members_write_agents !== false);
  }
  async loadPolicy(): Promise<void> {
    try {
      this.policy = await this.api.policy(this.ws.id);
    } catch {
      // Without it the server decides at each change, and says so.
    }
  }
  draftKey(id: string): string {
    return `openvibe.agent.${this.ws.myId}.${this.ws.id}.${id}`;
  }
  /** Is something written and not saved? */
  hasDraft(id: string): boolean {
    return device.get(this.draftKey(id)) !== null;
  }
}

const homes = new WeakMap<WorkspaceState, AgentsHome>();
/** Lives as long as its workspace does, so that going from page to page reads nothing twice. */
export function homeOf(ws: WorkspaceState): AgentsHome {
  let home = homes.get(ws);
  if (!home) homes.set(ws, (home = new AgentsHome(ws)));
  else void home.list.load();
  return home;
}
