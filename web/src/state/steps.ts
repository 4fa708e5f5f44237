import type { Channel } from '../api/types';
import { focusComposer, focusComposerOf } from '../lib/focus';
import { focusThread } from '../lib/focus-adjacent';
import { to, type Router } from '../lib/router.svelte';
import { newChat } from './new-chat';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

/** What is on screen. */
export interface Here {
  channel: Channel | undefined;
  ws: WorkspaceState;
  router: Router;
  ui: Ui;
}

/** Opens or focuses the nearest unread thread of the channel, from the open or focused one; wraps around at the end. */
export function unreadThread(way: 1 | -1, { channel, ws, router, ui }: Here): void {
  if (!channel) return;
  const { route } = router;
  const list = ws.channel(channel.id);
  const { map } = ws.threads;
  // The channel of an open thread may not be loaded: search the known threads instead.
  const all =
    list.status === 'ready' ? list.ids.flatMap((id) => map.get(id) ?? []) : ws.threads.inChannel(channel.id);
  const now = route.name === 'thread' ? route.thread : (document.activeElement as HTMLElement).dataset.thread;
  const from = all.findIndex((t) => t.id === now);
  for (let i = 1; i <= all.length; i++) {
    const start = from < 0 && way < 0 ? all.length : from;
    const next = all[(start + way * i + all.length * 2) % all.length]!;
    if (next.id === now || !(next.unread_count ?? 0)) continue;
    const listsThreads = route.name === 'channel' && channel.kind !== 'direct';
    if (ui.threadList) ui.threadList.open(next.id);
    else if (!listsThreads || !focusThread(next.id))
      router.go(to.thread(ws.slug, ws.channels.segment(channel), next.id));
    return;
  }
  ui.announce('No unread threads');
}

/** Opens the next or previous channel, or unread channel. */
export function channel(way: 1 | -1, unread: boolean, { channel: here, ws, router }: Here): void {
  const next = ws.channels.step(here?.id ?? null, way, unread);
  if (next) router.go(to.channel(ws.slug, ws.channels.segment(next)));
}

/** Focuses the composer of the channel, which starts threads. */
export function newThread({ channel, ws, router, ui }: Here): void {
  if (!channel) return;
  if (ui.threadList) return focusComposerOf(`c:${channel.id}`);
  router.go(to.channel(ws.slug, ws.channels.segment(channel)));
  setTimeout(focusComposer);
}

export function chat({ channel, ...deps }: Here): void {
  void newChat(channel, deps);
}
