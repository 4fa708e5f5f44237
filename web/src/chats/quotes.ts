import type { Channel, Message, Thread } from '../api/types';
import { focusComposer } from '../lib/focus';
import { to, type Router } from '../lib/router.svelte';
import { threadTitle } from '../lib/text';
import { showDirect } from '../state/directs';
import type { Ui } from '../state/ui.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';

/** Maximum number of messages that are brought to the team at once. */
export const QUOTED_MAX = 20;
/** Maximum number of threads offered as a place. */
const THREADS_OFFERED_MAX = 30;

interface QuoteDeps {
  ws: WorkspaceState;
  router: Router;
}

/** Messages as block quotes, each with its author. */
export const blockQuotes = (messages: readonly Message[], nameOf: (m: Message) => string): string =>
  messages.map((m) => `**${nameOf(m)}:** ${m.content.trim()}`.replace(/^/gm, '> ')).join('\n\n');

/** Checks whether a message can be quoted. */
export const isQuotable = (m: Message): boolean =>
  m.kind === 'text' && m.state !== 'streaming' && !m.deleted_at && m.content.trim() !== '';

/** A channel or thread into whose composer quotes are put. */
export interface QuotePlace {
  /** Draft key of the composer. */
  key: string;
  title: string;
  path: string;
}

/** Channels and recently active threads of the team in which the user can write. */
export function quotePlaces({ channels, threads, slug }: WorkspaceState): {
  channels: QuotePlace[];
  threads: QuotePlace[];
} {
  const rooms = channels.joined.filter((c) => c.kind !== 'direct' && !c.archived_at);
  const byId = new Map(rooms.map((c): [string, Channel] => [c.id, c]));
  const open = [...threads.map.values()].filter((t) => byId.has(t.channel_id) && t.status !== 'archived');
  const recent = open.sort((a, b) => b.last_seq - a.last_seq).slice(0, THREADS_OFFERED_MAX);
  const ofThread = (t: Thread): QuotePlace => {
    const channel = byId.get(t.channel_id)!;
    return {
      key: `t:${t.id}`,
      title: `${threadTitle(t)} (#${channel.name})`,
      path: to.thread(slug, channels.segment(channel), t.id),
    };
  };
  return {
    channels: rooms.map((c) => ({
      key: `c:${c.id}`,
      title: `#${c.name}`,
      path: to.channel(slug, channels.segment(c)),
    })),
    threads: recent.map(ofThread),
  };
}

/** Adds text to the draft of a composer. */
export function addToDraft(key: string, text: string, ws: WorkspaceState): void {
  const before = ws.drafts.get(key).trimEnd();
  ws.drafts.set(key, `${before ? `${before}\n\n` : ''}${text}`);
}

/** Puts messages as block quotes into the composer of a place, and opens it. */
export function bringTo(
  place: QuotePlace,
  messages: readonly Message[],
  { ws, router, ui }: QuoteDeps & { ui: Ui },
): void {
  addToDraft(place.key, `${blockQuotes(messages, (m) => ws.people.nameOf(m.author))}\n\n`, ws);
  ui.composerIn = place.key.startsWith('c:') ? place.key.slice(2) : null;
  router.go(place.path);
  requestAnimationFrame(() => focusComposer());
}

/** Puts a quote and a mention of the agent into the composer of the conversation on screen. */
export function askHere(m: Message, agent: string, { ws }: { ws: WorkspaceState }): void {
  const quote = blockQuotes([m], () => ws.people.nameOf(m.author));
  addToDraft(m.fork_id ? `d:${m.fork_id}` : `t:${m.thread_id}`, `${quote}\n\n@${agent} `, ws);
  requestAnimationFrame(() =>
    focusComposer(m.fork_id ? document.querySelector('aside [data-zone]') : undefined),
  );
}

/** Begins a chat with the agent; its composer has the quote. */
export async function askPrivately(m: Message, agent: string, deps: QuoteDeps & { ui: Ui }): Promise<void> {
  const { ws } = deps;
  const quote = `${blockQuotes([m], () => ws.people.nameOf(m.author))}\n\n`;
  const channel = await ws.api.openDirect({ agent_id: agent });
  addToDraft(`c:${channel.id}`, quote, ws);
  showDirect(channel, deps);
}
