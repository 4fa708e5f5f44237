import type { Agent, Channel } from '../api/types';
import { standing, type Binding, type Standing } from '../lib/standing';
import type { WorkspaceState } from './workspace.svelte';

/** A thread, or a dive. */
export interface Spot {
  thread: string;
  fork: string | null;
}
/** Where a composer stands, for the commands typed into it. */
export interface Desk {
  channel: Channel;
  /** The thread or the dive that it writes into; null where it starts a thread. */
  spot: Spot | null;
  standing: Standing;
}

export const standingIn = (place: Binding, ws: WorkspaceState): Standing =>
  standing(place, ws.people, ws.workspace.default_agent_id);

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
