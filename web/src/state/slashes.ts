import type { Agent } from '../api/types';
import { to, type Router } from '../lib/router.svelte';
import type { Slash } from '../lib/slash';
import { agentName } from '../lib/text';
import { handTo } from './handoff';
import { placeKey } from '../files/place';
import { setPreset, type Desk } from './standings';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

export interface Context {
  ws: WorkspaceState;
  ui: Ui;
  router: Router;
  /** Focuses the composer that is on screen now. */
  focus: () => void;
}

/** Executes a command. True if it is done and its text can be cleared. */
export async function runSlash(slash: Slash, desk: Desk, context: Context): Promise<boolean> {
  if (slash.name === 'new') return startNew(slash.text, desk, context);
  if (slash.name !== 'agent' || !slash.query) return false;
  const query = slash.query.toLowerCase();
  const named = (a: Agent) => a.name === query || agentName(a).toLowerCase() === query;
  const agent = query === 'none' ? null : context.ws.people.crew.find(named);
  if (agent !== undefined) return choose(agent, desk, context);
  context.ui.show(
    `Not sent: no agent is named “${slash.query}”. To send a message that starts with /agent, type //agent.`,
  );
  return false;
}

/** Binds the conversation to an agent; in a channel's composer, the thread that it starts next. */
export async function choose(agent: Agent | null, desk: Desk, context: Context): Promise<boolean> {
  const { ws, ui } = context;
  const { state, id, auto } = desk.standing;
  const same = agent ? state === 'here' && auto && id === agent.id : state === 'nobody';
  if (same && desk.spot) {
    ui.show(agent ? `${agentName(agent)} already replies here` : 'No agent replies here yet');
    return true;
  }
  if (desk.spot) return handTo(agent, desk.spot, context);
  // A new thread has no responder unless one is chosen, except in an agent's own channel.
  setPreset(desk.channel.id, agent || desk.channel.agent_id ? { agent } : undefined, ws);
  ui.say(
    agent ? `${agentName(agent)} will reply in the new thread` : 'Agents will reply only when mentioned',
  );
  return true;
}

/** Agent of a new thread. */
function kept({ standing: s }: Desk, ws: WorkspaceState): Agent | null {
  if (s.state === 'here') return ws.people.crew.find((a) => a.id === s.id) ?? null;
  return s.next;
}

function startNew(text: string, desk: Desk, { ws, ui, router, focus }: Context): boolean {
  const { channel } = desk;
  const agent = kept(desk, ws);
  const home = to.channel(ws.slug, ws.channels.segment(channel));
  const direct = channel.kind === 'direct';
  if (!text) {
    setPreset(channel.id, agent || direct ? { agent } : undefined, ws);
    router.go(home);
    focus();
    return true;
  }
  const written = router.place.path;
  // The server resolves a thread's own agent; a fallback agent, or the agent of a dive, is named explicitly.
  const from = desk.spot?.fork === null && desk.standing.state === 'here' ? desk.spot.thread : null;
  const who = from ? { from_thread_id: from } : { agent_id: agent?.id ?? null };
  const then = (id: string) => {
    if (![written, home].includes(router.place.path)) return; // the user navigated away
    if (direct) return router.go(home);
    ws.thread(id).begin();
    router.go(to.thread(ws.slug, ws.channels.segment(channel), id));
  };
  const target = { channel_id: channel.id, thread_id: null, direct: false, ...who };
  ws.send(target, text, then, ws.uploads?.take(placeKey(channel, desk.spot)));
  if (ws.connection.net === 'offline') {
    router.go(home); // it waits there, visible
    ui.show("You are offline. The new thread will start when you're back online.");
  }
  return true;
}
