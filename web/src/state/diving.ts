import { tick } from 'svelte';
import type { Fork, Message } from '../api/types';
import { focusComposer } from '../lib/focus';
import { to, type Router } from '../lib/router.svelte';
import { ACTIVE_MAX, isOpen } from './forks.svelte';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

interface DiveDeps {
  ws: WorkspaceState;
  ui: Ui;
  router: Router;
}

export const canDive = (m: Message, ws: WorkspaceState): boolean =>
  m.fork_id === null &&
  m.kind !== 'notice' &&
  m.state !== 'streaming' &&
  ws.people.canWrite &&
  !ws.channels.map.get(m.channel_id)?.archived_at &&
  ws.threads.map.get(m.thread_id)?.status !== 'archived';

/** The panel opens immediately, while the server creates the dive. */
export function startDive(m: Message, { ws, ui, router }: DiveDeps): void {
  if (ws.connection.net === 'offline')
    return ui.show("You are offline. You can start a dive when you're back online.");
  if (ws.forks.openIn(m.thread_id).length >= ACTIVE_MAX)
    return ui.show(`This thread has ${ACTIVE_MAX} open dives. Resolve or abandon one first.`);
  const id = ws.dives.start(m, (real, from) => settle(real, from, router));
  router.open(`dive:${id}`);
}
export const settle = (real: string, from: string, router: Router): void => {
  if (router.panel?.kind === 'dive' && router.panel.id === from) router.open(`dive:${real}`, null, true);
};

const panelDive = (ws: WorkspaceState, router: Router): Fork | undefined =>
  router.panel?.kind === 'dive' && !router.panel.resolve ? ws.dives.get(router.panel.id) : undefined;

export function canBringIn(m: Message, { ws, router }: Omit<DiveDeps, 'ui'>): boolean {
  const dive = panelDive(ws, router);
  return dive !== undefined && isOpen(dive) && m.fork_id === null && ws.people.canWrite;
}
/** Quotes the message into the composer of the open dive, so that the agent knows it, visibly for people. */
export function bringIn(m: Message, { ws, router }: Omit<DiveDeps, 'ui'>): void {
  const dive = panelDive(ws, router);
  if (!dive) return;
  const key = `d:${dive.id}`;
  const before = ws.drafts.get(key).trimEnd();
  const quote = `**${ws.people.nameOf(m.author)}:** ${m.content.trim()}`.replace(/^/gm, '> ');
  ws.drafts.set(key, `${before ? `${before}\n\n` : ''}${quote}\n\n`);
  void tick().then(() => {
    focusComposer(document.querySelector('aside [data-zone]'));
    const box = document.activeElement;
    if (box instanceof HTMLTextAreaElement) box.setSelectionRange(box.value.length, box.value.length);
  });
}

/** Path of a dive beside its thread; null while its channel is unknown. */
export function pathTo(dive: Fork, ws: WorkspaceState): string | null {
  const channel = ws.channels.map.get(dive.channel_id);
  return channel ? to.dive(ws.slug, ws.channels.segment(channel), dive.thread_id, dive.id) : null;
}
/** Goes to the origin message of a dive, or its card. On narrow screens, the panel would cover it. */
export function pathToMessage(dive: Fork, message: string, ws: WorkspaceState, keep: boolean): string | null {
  const channel = ws.channels.map.get(dive.channel_id);
  if (!channel) return null;
  const thread = to.thread(ws.slug, ws.channels.segment(channel), dive.thread_id);
  return `${thread}${keep ? `?panel=dive:${dive.id}` : ''}#m-${message}`;
}
