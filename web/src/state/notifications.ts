import type { ActionItem, Message } from '../api/types';
import { isFrom, mentionsMe, tellsMe } from '../lib/messages';
import { preview } from '../lib/text';
import type { WorkspaceParts } from './workspace-parts';

/** A notification for the user. */
export interface UserNotification {
  kind: 'mention' | 'answer' | 'result' | 'item';
  /** Author and channel. */
  title: string;
  text: string;
  /** A notification with the same tag replaces the older one. */
  tag: string;
  place: { channel_id: string; thread_id: string; fork_id: string | null; message_id: string };
}

/**
 * Notification of a mention, a direct message, or a resolution that concerns the user; null for other
 * messages.
 */
export function mentionNotification(m: Message, ws: WorkspaceParts): UserNotification | null {
  if (isFrom(m, ws.myId) || m.kind === 'notice') return null;
  const direct =
    !m.fork_id && ws.channels.map.get(m.channel_id)?.kind === 'direct' && m.author.type === 'human';
  if (!direct && !mentionsMe(m, ws.myId)) return null;
  return notificationOf(tellsMe(m, ws.myId) ? 'result' : 'mention', m, ws);
}
/** Notification of a reply that completes the user's request; null for other messages. */
export function replyNotification(m: Message, ws: WorkspaceParts): UserNotification | null {
  if (m.author.type !== 'agent' || m.state !== 'complete' || m.deleted_at || m.edited_at) return null;
  const task = m.metadata.task_id ? ws.tasks.map.get(m.metadata.task_id) : undefined;
  return task?.requested_by === ws.myId ? notificationOf('answer', m, ws) : null;
}
/**
 * Notification that an action item was assigned to the user; null if it was not. Call this before the item is
 * stored.
 */
export function assignmentNotification(item: ActionItem, ws: WorkspaceParts): UserNotification | null {
  if (item.done || item.owner_id !== ws.myId) return null;
  if (ws.outcomes.items.get(item.id)?.owner_id === ws.myId) return null;
  const { channel_id, thread_id, message_id } = item;
  if (!message_id) return null;
  return {
    kind: 'item',
    title: item.headline,
    text: item.text,
    tag: item.id,
    place: { channel_id, thread_id, message_id, fork_id: null },
  };
}

function notificationOf(
  kind: 'mention' | 'answer' | 'result',
  m: Message,
  ws: WorkspaceParts,
): UserNotification {
  const c = ws.channels.map.get(m.channel_id);
  const name = ws.people.nameOf(m.author);
  const title = !c || c.kind === 'direct' ? name : `${name} in #${c.name}`;
  return { kind, title, text: preview(m), tag: m.id, place: { ...m, message_id: m.id } };
}
