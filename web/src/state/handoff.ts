import { say } from '../api/problem';
import type { Agent } from '../api/types';
import { standing, type Binding, type Standing } from '../lib/standing';
import { agentName } from '../lib/text';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

interface Context {
  ws: WorkspaceState;
  ui: Ui;
}
/** A thread, or a dive. */
export interface Spot {
  thread: string;
  fork: string | null;
}
export interface BindingPatch {
  agent_id?: string | null;
  auto_reply?: boolean;
}

export const standingIn = (place: Binding, ws: WorkspaceState): Standing =>
  standing(place, ws.people.agents, ws.workspace.default_agent_id);

/** Changes who answers in a place. False: a line said why not. */
export async function rebind(spot: Spot, change: BindingPatch, { ws, ui }: Context): Promise<boolean> {
  if (ws.connection.net === 'offline') {
    ui.show('You are offline. Who answers here can be changed when you are back.');
    return false;
  }
  try {
    if (spot.fork) await ws.dives.patch(spot.fork, change);
    else ws.threads.put(await ws.api.patchThread(spot.thread, change));
    return true;
  } catch (e) {
    ui.show(say(e));
    return false;
  }
}
/** Hands a place to an agent, or to nobody. */
export async function handTo(agent: Agent | null, spot: Spot, context: Context): Promise<boolean> {
  const done = await rebind(spot, { agent_id: agent?.id ?? null }, context);
  if (done)
    context.ui.say(
      agent ? `${agentName(agent)} answers here now` : 'Nobody answers here now, unless mentioned',
    );
  return done;
}
/** The newest version of the agent that is bound already; what it answers to stays as it is. */
export async function moveOn(s: Standing, spot: Spot, context: Context): Promise<void> {
  const change = s.auto ? { agent_id: s.id } : { agent_id: s.id, auto_reply: false };
  if (await rebind(spot, change, context)) context.ui.say(`${s.name} answers here in version ${s.newest}`);
}

const NOBODY = 'none';
const key = (channel: string) => `a:${channel}`;
/** Who is to answer in the thread that a channel's composer starts next. */
export interface Preset {
  agent: Agent | null;
}
/** Undefined: nothing was chosen, or whom one chose may not be asked any more. */
export function presetOf(channel: string, ws: WorkspaceState): Preset | undefined {
  const kept = ws.drafts.get(key(channel));
  if (kept === NOBODY) return { agent: null };
  const agent = ws.people.crew.find((a) => a.id === kept);
  return agent && { agent };
}
export const setPreset = (channel: string, preset: Preset | undefined, ws: WorkspaceState): void =>
  preset ? ws.drafts.set(key(channel), preset.agent?.id ?? NOBODY) : ws.drafts.clear(key(channel));
