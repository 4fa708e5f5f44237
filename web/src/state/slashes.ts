import { RunsApi } from '../api/runs';
import type { Agent } from '../api/types';
import type { Candidate } from '../lib/complete';
import { to, type Router } from '../lib/router.svelte';
import type { Slash } from '../lib/slash';
import { agentName } from '../lib/text';
import { runNamed } from '../runs/start';
import { runBotCommand } from './bot-commands';
import { handTo } from './handoff';
import { draftKeyOf } from './conversation-ref';
import { setPreset, type ComposerContext } from './composer-context';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

export { commandChoices } from './bot-commands';

export interface SlashDeps {
  ws: WorkspaceState;
  ui: Ui;
  router: Router;
  /** Focuses the composer that is on screen now. */
  focus: () => void;
}

/** Executes a command. Returns true if it is done and its text can be cleared. */
export async function runSlash(slash: Slash, context: ComposerContext, deps: SlashDeps): Promise<boolean> {
  if (slash.name === 'new') return startNew(slash.text, context, deps);
  if (slash.name === 'run') return runNamed(slash, context, deps);
  if (slash.name === 'bot') return runBotCommand(slash, context, deps);
  if (slash.name !== 'agent' || !slash.query) return false;
  const query = slash.query.toLowerCase();
  const named = (a: Agent) => a.name === query || agentName(a).toLowerCase() === query;
  const agent = query === 'none' ? null : deps.ws.people.agents.find(named);
  if (agent !== undefined) return choose(agent, context, deps);
  deps.ui.show(
    `Not sent: no agent is named “${slash.query}”. To send a message that starts with /agent, type //agent.`,
  );
  return false;
}

/**
 * Completions of `/run`: the active workflows, sorted by name, so that a name comes before longer ones that
 * begin with it.
 */
export async function workflowChoices({ api }: WorkspaceState): Promise<Candidate[]> {
  const workflows = await api.part(RunsApi).workflows();
  const active = workflows.filter((w) => w.status === 'active');
  active.sort((a, b) => a.name.localeCompare(b.name));
  return active.map(({ id, name, description }): Candidate => ({
    key: id,
    kind: 'command',
    insert: name,
    title: name,
    handle: name,
    note: description,
  }));
}

/** Binds the conversation to an agent; in a channel's composer, the thread that it starts next. */
export async function choose(
  agent: Agent | null,
  context: ComposerContext,
  deps: SlashDeps,
): Promise<boolean> {
  const { ws, ui } = deps;
  const { state, id, auto } = context.responder;
  const same = agent ? state === 'here' && auto && id === agent.id : state === 'nobody';
  if (same && context.conversation) {
    ui.show(agent ? `${agentName(agent)} already replies here` : 'No agent replies here yet');
    return true;
  }
  if (context.conversation) return handTo(agent, context.conversation, deps);
  // A new thread has no responder unless one is chosen, except in an agent's own channel.
  setPreset(context.channel.id, agent || context.channel.agent_id ? { agent } : undefined, ws);
  ui.announce(
    agent ? `${agentName(agent)} will reply in the new thread` : 'Agents will reply only when mentioned',
  );
  return true;
}

/** Agent of a new thread. */
function kept({ responder: s }: ComposerContext, ws: WorkspaceState): Agent | null {
  if (s.state === 'here') return ws.people.agents.find((a) => a.id === s.id) ?? null;
  return s.next;
}

function startNew(text: string, context: ComposerContext, { ws, ui, router, focus }: SlashDeps): boolean {
  const { channel } = context;
  const agent = kept(context, ws);
  const home = to.channel(ws.slug, ws.channels.segment(channel));
  const direct = channel.kind === 'direct';
  if (!text) {
    setPreset(channel.id, agent || direct ? { agent } : undefined, ws);
    router.go(home);
    focus();
    return true;
  }
  const written = router.place.path;
  // The server resolves a thread's own agent; a fallback agent, or the agent of a fork, is named explicitly.
  const from =
    context.conversation?.fork === null && context.responder.state === 'here'
      ? context.conversation.thread
      : null;
  const who = from ? { from_thread_id: from } : { agent_id: agent?.id ?? null };
  const then = (id: string) => {
    if (![written, home].includes(router.place.path)) return; // the user navigated away
    if (direct) return router.go(home);
    ws.thread(id).begin();
    router.go(to.thread(ws.slug, ws.channels.segment(channel), id));
  };
  const target = { channel_id: channel.id, thread_id: null, direct: false, ...who };
  ws.outgoing.send(target, text, then, ws.uploads?.take(draftKeyOf(channel, context.conversation)));
  if (ws.connection.net === 'offline') {
    router.go(home); // the message waits there, where the user sees it
    ui.show(
      `${ws.connection.cause(ws.workspace.name)} The new thread will start when the connection is back.`,
    );
  }
  return true;
}
