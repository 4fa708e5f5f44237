import type { FollowedKind } from '../api/following';
import type { Thread } from '../api/types';
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
type FollowedThread = Exclude<Followed, { kind: 'fork' }>;
const versionsOf = (row: FollowedThread): readonly Thread[] => [row.thread, ...row.variants];
/** Number of unread messages; of a chat, in all of its versions. */
export const unreadIn = (row: Followed): number =>
  row.kind === 'fork'
    ? (row.fork.unread_count ?? 0)
    : versionsOf(row).reduce((sum, t) => sum + (t.unread_count ?? 0), 0);
/** The version of a chat with the latest activity. */
export const latestOf = (row: FollowedThread): Thread =>
  versionsOf(row).reduce((a, b) => (b.last_seq > a.last_seq ? b : a));
/** The version of a chat to open: the first unread one, or else the one with the latest activity. */
export const openedOf = (row: FollowedThread): Thread =>
  versionsOf(row).find((t) => t.unread_count) ?? latestOf(row);
/** Unread conversations first; the order is kept otherwise. */
export const unreadFirst = (rows: readonly Followed[]): Followed[] => [
  ...rows.filter((row) => unreadIn(row) > 0),
  ...rows.filter((row) => !unreadIn(row)),
];
