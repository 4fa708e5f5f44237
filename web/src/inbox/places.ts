import type { InboxItem } from '../api/inbox';
import { to } from '../lib/router.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';

/** "#ops"; blank in direct channels and outside of channels. */
export function placeText(i: InboxItem, ws: WorkspaceState): string {
  const channel = ws.channels.map.get(i.channel_id ?? '');
  return channel && channel.kind !== 'direct' ? `#${channel.name}` : '';
}

/** Page on which the user does what an item waits for; a deep dive is resolved beside the inbox. */
export function actHref(i: InboxItem, ws: WorkspaceState): string {
  const fork = i.fork_id ?? (i.subject_id?.startsWith('fork_') ? i.subject_id : null);
  if (!fork || (i.reason !== 'draft' && i.reason !== 'resolve')) return objectHref(i, ws);
  return `${to.inbox(ws.slug)}?panel=dive:${fork}${i.reason === 'draft' ? ':resolve' : ''}`;
}

/** Page of the object that an item is about: the conversation at the message, or a page of the workspace. */
export function hrefOf(i: InboxItem, ws: WorkspaceState): string {
  const { slug } = ws;
  const channel = ws.channels.map.get(i.channel_id ?? '');
  if (channel && i.thread_id) {
    const segment = ws.channels.segment(channel);
    if (i.fork_id) return to.fork(slug, segment, i.thread_id, i.fork_id, i.message_id);
    const thread = to.thread(slug, segment, i.thread_id);
    return i.message_id ? `${thread}#m-${i.message_id}` : thread;
  }
  return objectHref(i, ws);
}

function objectHref(i: InboxItem, { slug }: WorkspaceState): string {
  const id = i.subject_id ?? '';
  if (id.startsWith('run_')) return to.run(slug, id);
  if (id.startsWith('flow_')) return to.workflows(slug);
  if (id.startsWith('sched_')) return to.schedules(slug);
  if (id.startsWith('tool_')) return to.settings(slug, 'tools');
  if (id.startsWith('bot_')) return to.settings(slug, 'integrations');
  if (id.startsWith('item_')) return to.actions(slug);
  if (id.startsWith('user_') || id.startsWith('identity_')) return to.settings(slug, 'members');
  if (id.startsWith('server_')) return to.settings(slug, 'server');
  if (id.startsWith('idp_')) return to.settings(slug, 'providers');
  return i.reason === 'notice' ? to.settings(slug, 'costs') : to.inbox(slug);
}
