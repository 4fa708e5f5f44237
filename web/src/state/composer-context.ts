import type { Agent, Channel } from '../api/types';
import { resolveResponder, UNBOUND, type Binding, type Responder } from '../lib/responder';
import type { ConversationRef } from './conversation-ref';
import type { WorkspaceParts } from './workspace-parts';

/** Conversation of a composer, for its slash commands. */
export interface ComposerContext {
  channel: Channel;
  /** The thread or fork that it posts to; null if it starts a thread. */
  conversation: ConversationRef | null;
  responder: Responder;
}

export const responderOf = (place: Binding, ws: WorkspaceParts): Responder =>
  resolveResponder(place, ws.people, ws.workspace.default_agent_id);

/** Responder of the next thread of a channel: the channel's agent, if it replies to first messages. */
export function channelResponder({ agent }: Channel, ws: WorkspaceParts): Responder {
  const nobody = responderOf(UNBOUND, ws);
  if (agent?.mode !== 'roots' && agent?.mode !== 'all') return nobody;
  const own = responderOf({ agent_id: agent.agent_id, agent_version: null, auto_reply: true }, ws);
  return own.state === 'here' ? own : nobody;
}
/** Agent that is off in the channel. */
export const silencedIn = ({ agent }: Channel): string | null =>
  agent?.mode === 'off' ? agent.agent_id : null;
/** Responder of a thread: an agent that is off in the channel does not reply. */
export function threadResponder(place: Binding, channel: Channel, ws: WorkspaceParts): Responder {
  const responder = responderOf(place, ws);
  return responder.next?.id === silencedIn(channel) ? { ...responder, next: null } : responder;
}

const NOBODY = 'none';
const key = (channel: string) => `a:${channel}`;
/** The agent chosen for the next thread of a channel's composer. */
export interface Preset {
  agent: Agent | null;
}
/** Undefined if none was chosen, or if the user can no longer invoke the chosen one. */
export function presetOf(channel: string, ws: WorkspaceParts): Preset | undefined {
  const kept = ws.drafts.get(key(channel));
  if (kept === NOBODY) return { agent: null };
  const agent = ws.people.agents.find((a) => a.id === kept);
  return agent && { agent };
}
export const setPreset = (channel: string, preset: Preset | undefined, ws: WorkspaceParts): void =>
  preset ? ws.drafts.set(key(channel), preset.agent?.id ?? NOBODY) : ws.drafts.clear(key(channel));
