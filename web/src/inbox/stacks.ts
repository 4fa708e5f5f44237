import type { InboxItem, InboxReason } from '../api/inbox';
import type { ReadPlace } from './feed.svelte';

/** Adjacent items of a conversation, newest first; keys act on all of them. */
export interface Stack {
  /** ID of the oldest item, which stays when newer ones come. */
  key: string;
  items: readonly [InboxItem, ...InboxItem[]];
}

/** ID of the fork or thread; null for items outside of conversations. */
export const conversationOf = (i: InboxItem): string | null => i.fork_id ?? i.thread_id;

/** Sorts items as the server does: newest first. */
export const newestFirst = (a: InboxItem, b: InboxItem): number => b.seq - a.seq || (a.id < b.id ? 1 : -1);

/** Reasons by priority: the first one of a stack names it. */
const PRIORITY: readonly InboxReason[] = [
  'mention',
  'direct',
  'group',
  'thread',
  'result',
  'answer',
  'failed',
  'reply',
  'resolve',
  'draft',
  'assigned',
  'approval',
  'notice',
  'saved',
];
/** The item that names a stack: the one with the first reason, and the newest of these. */
export const leading = ({ items }: Stack): InboxItem =>
  items.reduce((best, i) => (PRIORITY.indexOf(i.reason) < PRIORITY.indexOf(best.reason) ? i : best));

/** Combines adjacent items of the same conversation. */
export function stacked(items: readonly InboxItem[]): Stack[] {
  const stacks: [InboxItem, ...InboxItem[]][] = [];
  for (const item of items) {
    const last = stacks.at(-1);
    const place = conversationOf(item);
    if (last && place && conversationOf(last[0]) === place) last.push(item);
    else stacks.push([item]);
  }
  return stacks.map((of) => ({ key: of.at(-1)!.id, items: of }));
}

/** An item that is settled elsewhere has its act instead of a conversation to read. */
export function actOf({ reason, subject_id }: InboxItem): string | null {
  if (reason === 'resolve') return 'Resolve';
  if (reason === 'draft') return 'Review the draft';
  if (reason === 'failed' && /^(?:sched|run)_/.test(subject_id ?? '')) return 'Resume';
  return reason === 'notice' ? 'Review' : null;
}

/** Reasons that close when their message is read; the server sends no event for items of a channel. */
const CLOSED_BY_READING: readonly InboxReason[] = ['direct', 'group', 'thread', 'result', 'answer', 'reply'];
const isAt = (i: InboxItem, place: ReadPlace): boolean => {
  if ('fork' in place) return i.fork_id === place.fork;
  if (i.fork_id) return false; // forks have their own markers
  return 'thread' in place ? i.thread_id === place.thread : i.channel_id === place.channel;
};
/** The item after a place was read up to an event; the same object if that changes nothing. */
export function afterReading(i: InboxItem, place: ReadPlace, seq: number): InboxItem {
  if (!isAt(i, place) || i.seq > seq) return i;
  const closes = i.state === 'open' && CLOSED_BY_READING.includes(i.reason);
  return i.unread || closes ? { ...i, unread: false, state: closes ? 'done' : i.state } : i;
}
