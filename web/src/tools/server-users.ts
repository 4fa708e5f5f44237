import type { AgentPatch, AgentProfile } from '../api/agent-types';
import { Conflict } from '../api/problem';
import { serverEntry, storedTool } from '../state/agents-tools';

/** API calls that change the agents of a server. */
export interface UsersApi {
  get(id: string): Promise<AgentProfile>;
  patch(id: string, version: number, body: AgentPatch): Promise<AgentProfile>;
}

/**
 * Adds a server to an agent's own tools, or removes it. Does nothing if the agent is like that already. If someone else saves
 * the agent in the meantime, tries once more.
 */
export async function setServer(api: UsersApi, agent: string, tool: string, isUsed: boolean): Promise<void> {
  let profile = await api.get(agent);
  for (let attempt = 1; ; attempt++) {
    const entry = serverEntry(profile.tools, tool);
    if (!!entry === isUsed) return;
    const others = profile.tools.filter((one) => one !== entry).map(storedTool);
    const tools = isUsed ? [...others, { type: 'mcp' as const, registry_id: tool }] : others;
    try {
      await api.patch(agent, profile.version, { tools });
      return;
    } catch (e) {
      if (!(e instanceof Conflict) || attempt === 2) throw e;
      profile = e.current as AgentProfile;
    }
  }
}

/** The agents whose own tools include a server, among those that use it also through a base. */
export async function directUsers(api: UsersApi, tool: string, agents: string[]): Promise<string[]> {
  const profiles = await Promise.all(agents.map((id) => api.get(id)));
  return profiles.filter((profile) => serverEntry(profile.tools, tool)).map(({ id }) => id);
}
