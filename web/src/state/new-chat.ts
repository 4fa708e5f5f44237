import { errorMessage } from '../api/problem';
import type { Channel } from '../api/types';
import type { Router } from '../lib/router.svelte';
import { setPreset } from './composer-context';
import { openDirect } from './directs';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

/** Begins a chat with the agent of the direct channel on screen, else with the workspace's agent; the first message starts it. */
export async function newChat(
  here: Channel | undefined,
  deps: { ws: WorkspaceState; router: Router; ui: Ui },
): Promise<void> {
  const { ws, ui } = deps;
  const id = (here?.kind === 'direct' && here.agent_id) || ws.workspace.default_agent_id;
  const agent = ws.people.agents.find((a) => a.id === id) ?? ws.people.agents[0];
  if (!agent || !ws.people.canWrite) return ui.show('There is no agent that you can chat with.');
  try {
    await openDirect({ agent_id: agent.id }, deps);
    const channel = ws.channels.directs.find((c) => c.agent_id === agent.id);
    if (channel) setPreset(channel.id, { agent }, ws);
  } catch (e) {
    ui.show(errorMessage(e));
  }
}
