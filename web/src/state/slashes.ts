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
  /** The writer goes on in the box that is there now. */
  focus: () => void;
}

/** Does what a command says. True: it is done, and its text can go. */
export async function runSlash(slash: Slash, desk: Desk, context: Context): Promise<boolean> {
  if (slash.name === 'new') return startNew(slash.text, desk, context);
  if (slash.name !== 'agent' || !slash.query) return false;
  const query = slash.query.toLowerCase();
  const named = (a: Agent) => a.name === query || agentName(a).toLowerCase() === query;
  const agent = query === 'none' ? null : context.ws.people.crew.find(named);
  if (agent !== undefined) return choose(agent, desk, context);
  context.ui.show(`Nothing was sent: no agent is called “${slash.query}”. A message may begin with //agent.`);
  return false;
}

/** Gives the place to an agent; in a channel's composer, the thread that it starts next. */
export async function choose(agent: Agent | null, desk: Desk, context: Context): Promise<boolean> {
  const { ws, ui } = context;
  const { state, id, auto } = desk.standing;
  const same = agent ? state === 'here' && auto && id === agent.id : state === 'nobody';
  if (same && desk.spot) {
    ui.show(
      agent ? `${agentName(agent)} answers here already` : 'Nobody answers here already, unless mentioned',
    );
    return true;
  }
  if (desk.spot) return handTo(agent, desk.spot, context);
  // Nobody answers in a new thread unless somebody is chosen, save in an agent's own channel.
  setPreset(desk.channel.id, agent || desk.channel.agent_id ? { agent } : undefined, ws);
  ui.say(agent ? `${agentName(agent)} will answer in the new thread` : 'Nobody will answer by itself');
  return true;
}

/** Whom a new thread takes over. */
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
  // A thread's own agent is the server's to know; what stands in for it, or a dive's, is said by name.
  const from = desk.spot?.fork === null && desk.standing.state === 'here' ? desk.spot.thread : null;
  const who = from ? { from_thread_id: from } : { agent_id: agent?.id ?? null };
  const then = (id: string) => {
    if (![written, home].includes(router.place.path)) return; // the writer went elsewhere
    if (direct) return router.go(home);
    ws.thread(id).begin();
    router.go(to.thread(ws.slug, ws.channels.segment(channel), id));
  };
  const target = { channel_id: channel.id, thread_id: null, direct: false, ...who };
  ws.send(target, text, then, ws.uploads?.take(placeKey(channel, desk.spot)));
  if (ws.connection.net === 'offline') {
    router.go(home); // there it waits, for everyone to see
    ui.show('You are offline. The new thread starts when you are back.');
  }
  return true;
}
