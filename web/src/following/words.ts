import type { FollowedKind } from '../api/following';
import { threadTitle } from '../lib/text';
import type { Followed } from './following.svelte';

export const KINDS: readonly (readonly [FollowedKind | 'all', string])[] = [
  ['all', 'All'],
  ['thread', 'Threads'],
  ['fork', 'Dives'],
  ['chat', 'Chats'],
];
export const titleOf = (row: Followed): string =>
  row.kind === 'fork' ? row.fork.title : threadTitle(row.thread);
/** Number of unread messages. */
export const unreadIn = (row: Followed): number =>
  row.kind === 'fork' ? (row.fork.unread_count ?? 0) : (row.thread.unread_count ?? 0);
/** Unread conversations first; the order is kept otherwise. */
export const unreadFirst = (rows: readonly Followed[]): Followed[] => [
  ...rows.filter((row) => unreadIn(row) > 0),
  ...rows.filter((row) => !unreadIn(row)),
];
