import { errorMessage } from '../api/problem';
import type { Channel } from '../api/types';
import { to, type Router } from '../lib/router.svelte';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

export interface ChannelContext {
  ws: WorkspaceState;
  ui: Ui;
  router: Router;
}

/**
 * Checks whether the user can archive the channel. Admins and its creator can; #general cannot be archived.
 */
export const canArchive = (c: Channel, ws: WorkspaceState): boolean =>
  ws.people.canWrite &&
  c.kind !== 'direct' &&
  c.name !== 'general' &&
  (ws.people.isAdmin || c.created_by === ws.myId);

/** Archived channels that the user can unarchive. */
export const archivedChannels = (ws: WorkspaceState): Channel[] =>
  [...ws.channels.map.values()]
    .filter((c) => c.archived_at && canArchive(c, ws))
    .sort((a, b) => (a.name ?? '').localeCompare(b.name ?? ''));

/** Archives the channel for everyone; for 10 seconds a toast offers Undo. */
export async function archiveChannel(channel: Channel, context: ChannelContext): Promise<void> {
  const { ws, ui, router } = context;
  const open = router.route;
  const here = 'channel' in open && ws.channels.find(open.channel)?.id === channel.id;
  ws.channels.put(await ws.api.archiveChannel(channel.id));
  if (here) router.go(`/${ws.slug}`);
  const undo = () =>
    void unarchiveChannel(channel, context).then(
      () => here && router.go(to.channel(ws.slug, ws.channels.segment(channel))),
      (e: unknown) => ui.show(errorMessage(e)),
    );
  ui.show(`#${channel.name} archived`, { label: 'Undo', run: undo });
}

export async function unarchiveChannel(channel: Channel, { ws, ui }: ChannelContext): Promise<void> {
  ws.channels.put(await ws.api.unarchiveChannel(channel.id));
  ui.show(`#${channel.name} is unarchived`);
}
