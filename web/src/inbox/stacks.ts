import type { InboxItem, InboxReason } from '../api/inbox';

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
  if (reason === 'failed' && /^(?:sched|flow)_/.test(subject_id ?? '')) return 'Resume';
  return reason === 'notice' ? 'Review' : null;
}
