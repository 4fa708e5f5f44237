import { AdminApi } from '../api/admin';
import { AgentsApi } from '../api/agents';
import type { AgentProfile, WorkspacePolicy } from '../api/agent-types';
import { PersonasApi, type Persona } from '../api/personas';
import { ToolsApi, type RegisteredTool } from '../api/tools';
import { lacksModel } from '../lib/lacks-model';
import { isEditor } from '../state/agent-authors';
import { AgentList } from '../state/agents-list.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';

/** Context of a workspace's agent pages: their API client, the agent list, and the user's rights. */
export class AgentsContext {
  readonly api: AgentsApi;
  readonly list: AgentList;
  readonly ws: WorkspaceState;
  policy = $state.raw<WorkspacePolicy | null>(null);
  /** Null until loaded. */
  personas = $state.raw<Persona[] | null>(null);
  /** Servers of the workspace; null until loaded. */
  servers = $state.raw<RegisteredTool[] | null>(null);
  /** Model that the server uses for all agents; null if agents choose theirs, and undefined until loaded. */
  overridingModel = $state.raw<string | null | undefined>(undefined);

  constructor(ws: WorkspaceState) {
    this.ws = ws;
    this.api = ws.api.part(AgentsApi);
    this.list = new AgentList(this.api, ws.people);
    void this.list.load();
    void this.loadPolicy();
    void this.loadPersonas();
    void this.loadServers();
    void this.loadModel();
  }
  get isAdmin(): boolean {
    return this.ws.people.isAdmin;
  }
  /**
   * True if the user can create, change, and archive agents. Members can if the workspace's policy allows it.
   */
  get mayWrite(): boolean {
    const { me } = this.ws.people;
    return me.role === 'admin' || (me.role === 'member' && this.policy?.members_write_agents !== false);
  }
  /** Checks whether the user can change this agent and its files. */
  mayEdit(agent: AgentProfile): boolean {
    const { me } = this.ws.people;
    return this.mayWrite && isEditor(agent, { id: this.ws.myId, role: me.role });
  }
  /** True if the workspace has no language model to reply with. */
  get lacksModel(): boolean {
    return lacksModel(this.ws.people.agents);
  }
  async loadPolicy(): Promise<void> {
    try {
      this.policy = await this.api.policy(this.ws.id);
    } catch {
      // If the policy cannot be loaded, the server decides on each change.
    }
  }
  async loadPersonas(): Promise<void> {
    try {
      this.personas = await this.ws.api.part(PersonasApi).all();
    } catch {
      // Fields show no persona names until the next load.
    }
  }
  async loadServers(): Promise<void> {
    try {
      this.servers = (await this.ws.api.part(ToolsApi).all()).filter((tool) => tool.kind === 'mcp');
    } catch {
      // The servers are left out until the next load. Saved tools stay.
    }
  }
  async loadModel(): Promise<void> {
    try {
      const model = await this.ws.api.part(AdminApi).defaultModel();
      this.overridingModel = model?.overridesAgents ? model.id : null;
    } catch {
      // Agents show their models without a reason until the next load.
    }
  }
  draftKey(id: string): string {
    return `openvibe.agent.${this.ws.myId}.${this.ws.id}.${id}`;
  }
  fileDraftKey(id: string, path: string): string {
    return `${this.draftKey(id)}.file.${path}`;
  }
  /** Paths of files with unsaved changes. */
  draftedFiles(id: string): string[] {
    const prefix = this.fileDraftKey(id, '');
    return this.ws.store.keys(prefix).map((key) => key.slice(prefix.length));
  }
  /**
   * Removes unsaved changes of a deleted agent and its files. Windows that already show these changes keep
   * them on screen.
   */
  forgetDrafts(id: string): void {
    for (const key of this.ws.store.keys(this.draftKey(id))) this.ws.store.remove(key);
  }
  /** Checks whether the agent has unsaved changes. */
  hasDraft(id: string): boolean {
    return this.ws.store.get(this.draftKey(id)) !== null;
  }
}

const contexts = new WeakMap<WorkspaceState, AgentsContext>();
/** Context of the workspace, kept between pages: navigation shows the loaded data while it is refreshed. */
export function agentsContextOf(ws: WorkspaceState): AgentsContext {
  let context = contexts.get(ws);
  if (!context) contexts.set(ws, (context = new AgentsContext(ws)));
  else {
    void context.list.load();
    void context.loadPolicy();
    void context.loadPersonas();
    void context.loadServers();
  }
  return context;
}
