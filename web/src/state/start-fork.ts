import { tick } from 'svelte';
import type { Fork, Message } from '../api/types';
import { addToDraft, blockQuotes } from '../chats/quotes';
import { focusComposer } from '../lib/focus';
import type { Router } from '../lib/router.svelte';
import { ACTIVE_MAX, isOpen } from './forks.svelte';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

interface ForkDeps {
  ws: WorkspaceState;
  ui: Ui;
  router: Router;
}

export const canFork = (m: Message, ws: WorkspaceState): boolean =>
  m.fork_id === null &&
  m.kind !== 'notice' &&
  m.state !== 'streaming' &&
  ws.people.canWrite &&
  !ws.channels.map.get(m.channel_id)?.archived_at &&
  ws.threads.map.get(m.thread_id)?.status !== 'archived';

/** Starts a fork. Its panel opens immediately, while the server creates the fork. */
export function startFork(m: Message, { ws, ui, router }: ForkDeps): void {
  if (ws.connection.net === 'offline')
    return ui.show(
      `${ws.connection.cause(ws.workspace.name)} You can start a dive when the connection is back.`,
    );
  if (ws.forks.openIn(m.thread_id).length >= ACTIVE_MAX)
    return ui.show(`This thread has ${ACTIVE_MAX} open dives. Resolve or abandon one first.`);
  const id = ws.forkActions.start(m, (real, from) => settle(real, from, router));
  router.open(`dive:${id}`);
}
export const settle = (real: string, from: string, router: Router): void => {
  if (router.panel?.kind === 'dive' && router.panel.id === from) router.open(`dive:${real}`, null, true);
};

const forkInPanel = (ws: WorkspaceState, router: Router): Fork | undefined =>
  router.panel?.kind === 'dive' && !router.panel.resolve ? ws.forkActions.get(router.panel.id) : undefined;

export function canQuoteInFork(m: Message, { ws, router }: Omit<ForkDeps, 'ui'>): boolean {
  const fork = forkInPanel(ws, router);
  return fork !== undefined && isOpen(fork) && m.fork_id === null && ws.people.canWrite;
}
/** Quotes the message into the composer of the open fork: the agent receives it, and people see it. */
export function quoteInFork(m: Message, { ws, router }: Omit<ForkDeps, 'ui'>): void {
  const fork = forkInPanel(ws, router);
  if (!fork) return;
  const quote = blockQuotes([m], () => ws.people.nameOf(m.author));
  addToDraft(`d:${fork.id}`, `${quote}\n\n`, ws);
  void tick().then(() => {
    focusComposer(document.querySelector('aside [data-zone]'));
    const box = document.activeElement;
    if (box instanceof HTMLTextAreaElement) box.setSelectionRange(box.value.length, box.value.length);
  });
}
