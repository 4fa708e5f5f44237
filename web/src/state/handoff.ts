import { errorMessage } from '../api/problem';
import type { Agent } from '../api/types';
import type { Responder } from '../lib/responder';
import { agentName } from '../lib/text';
import type { ConversationRef } from './conversation-ref';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

interface BindingDeps {
  ws: WorkspaceState;
  ui: Ui;
}
export interface BindingPatch {
  agent_id?: string | null;
  auto_reply?: boolean;
}

/** Changes the responder of a conversation. Returns false if that failed; a toast shows the reason. */
export async function rebind(
  conversation: ConversationRef,
  change: BindingPatch,
  { ws, ui }: BindingDeps,
): Promise<boolean> {
  if (ws.connection.net === 'offline') {
    ui.show(
      `${ws.connection.cause(ws.workspace.name)} You can change the agent when the connection is back.`,
    );
    return false;
  }
  const { version } = ws.threads;
  try {
    if (conversation.fork) await ws.forkActions.patch(conversation.fork, change);
    else ws.threads.learn(await ws.api.patchThread(conversation.thread, change), version);
    return true;
  } catch (e) {
    ui.show(errorMessage(e));
    return false;
  }
}
/** Binds a conversation to an agent, or to none. */
export async function handTo(
  agent: Agent | null,
  conversation: ConversationRef,
  deps: BindingDeps,
): Promise<boolean> {
  const done = await rebind(conversation, { agent_id: agent?.id ?? null }, deps);
  if (done)
    deps.ui.announce(
      agent ? `${agentName(agent)} now replies here` : 'Agents now reply here only when mentioned',
    );
  return done;
}
/** Switches to the newest version of the bound agent. Auto-reply does not change. */
export async function moveOn(s: Responder, conversation: ConversationRef, deps: BindingDeps): Promise<void> {
  const change = s.auto ? { agent_id: s.id } : { agent_id: s.id, auto_reply: false };
  if (await rebind(conversation, change, deps))
    deps.ui.announce(`Version ${s.newest} of ${s.name} now replies here`);
}
