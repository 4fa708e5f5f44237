import type { InboxItem, InboxReason, InboxState } from '../api/inbox';
import { listed } from '../lib/text';
import { clock, plural, since } from '../lib/time';
import { leading, type Stack } from './stacks';

export const TABS = [
  ['open', 'Open'],
  ['later', 'Later'],
  ['done', 'Done'],
] as const satisfies readonly (readonly [InboxState, string])[];

/** Reasons to filter by, with the names of their items. */
export const REASONS: readonly (readonly [InboxReason, string])[] = [
  ['mention', 'Mentions'],
  ['direct', 'Messages'],
  ['group', '@channel and @here'],
  ['thread', 'New threads'],
  ['result', 'Results'],
  ['answer', 'Answers'],
  ['failed', 'Failed'],
  ['reply', 'Replies'],
  ['resolve', 'To resolve'],
  ['draft', 'Drafts'],
  ['assigned', 'Action items'],
  ['notice', 'Notices'],
  ['saved', 'Saved'],
];

const CHIPS: Record<InboxReason, string> = {
  mention: 'Mention',
  direct: 'Message',
  group: '@channel',
  thread: 'New thread',
  result: 'Result',
  answer: 'Answer',
  failed: 'Failed',
  reply: 'Reply',
  resolve: 'Resolve',
  draft: 'Draft ready',
  assigned: 'Action item',
  approval: 'Approval',
  notice: 'Notice',
  saved: 'Saved',
};
/** Text of the chip. */
export function chipOf(i: InboxItem): string {
  if (i.reason === 'mention' && i.is_question) return 'Asked you';
  if (i.reason === 'group' && /(^|\W)@here\b/i.test(i.text)) return '@here';
  if (i.reason === 'reply' && i.fork_id) return 'Deep dive';
  // A saved message without a reminder never opens.
  if (i.reason === 'saved' && (i.until || i.state === 'open')) return 'Reminder';
  return CHIPS[i.reason];
}
/** Color of the chip: amber belongs to dives, red to failures. */
export function toneOf(i: InboxItem): 'person' | 'fork' | 'bad' | '' {
  if (i.reason === 'failed') return 'bad';
  if (i.fork_id || i.reason === 'resolve' || i.reason === 'draft' || i.reason === 'result') return 'fork';
  return i.reason === 'mention' || i.reason === 'direct' || i.reason === 'group' ? 'person' : '';
}

/** Title of a stack: that of its conversation, with the number of items. */
export function titleOf({ items }: Stack): string {
  const title = items[0].title || 'Untitled';
  return items.length > 1 ? `${items.length} in ${title}` : title;
}
/** Number of messages behind a single item, if it stands for several. */
export const behind = ({ items }: Stack): string =>
  items.length === 1 && items[0].count > 1 ? plural(items[0].count, 'message') : '';

/** The text of an item without the title, with which the first message of a thread begins. */
export const textOf = ({ title, text }: InboxItem): string =>
  title && text.startsWith(title) ? text.slice(title.length).trim() : text;

/** "Ada in #ops"; `place` is empty in direct channels. */
export const fromText = (i: InboxItem, place: string): string =>
  [i.from?.name, place].filter(Boolean).join(i.from ? ' in ' : '');

const shortWeekday = new Intl.DateTimeFormat('en-GB', { weekday: 'short' });
const dayMonth = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'long' });
/** Time at which an item opens again: "09:00", "Mon 09:00", "3 November 09:00". */
export function untilText(iso: string, now = new Date()): string {
  const date = new Date(iso);
  const midnight = (d: Date) => new Date(d.getFullYear(), d.getMonth(), d.getDate()).getTime();
  const days = Math.round((midnight(date) - midnight(now)) / 86_400_000);
  if (days <= 0) return clock(iso);
  const day = (days < 7 ? shortWeekday : dayMonth).format(date);
  return `${day} ${clock(iso)}`;
}
/** The time that a row shows: when it opens again, or when it came. */
export const timeOf = (i: InboxItem): string =>
  i.state === 'later' && i.until ? `until ${untilText(i.until)}` : since(i.created_at);

/** Accessible name: "Mention, Ada in #ops, Offline sync, can you check this, 09:24, unread". */
export function rowName(stack: Stack, place: string, isClosed: boolean): string {
  const item = leading(stack);
  const unread = stack.items.some((i) => i.unread);
  return [
    chipOf(item),
    fromText(item, place),
    titleOf(stack),
    behind(stack),
    textOf(item),
    timeOf(item),
    isClosed ? 'done' : unread && 'unread',
  ]
    .filter(Boolean)
    .join(', ');
}

/** "Bo has not answered:", "Bo and Eva have not all answered:". */
export const askedText = (people: readonly string[]): string =>
  people.length > 1
    ? `${listed(people)} have not all answered:`
    : `${people[0] ?? 'Somebody'} has not answered:`;

/** The result of a change for the live region: "Done. 4 left." */
export const changedText = (state: InboxState, until: string | null, left: number): string => {
  const what = state === 'done' ? 'Done' : state === 'open' ? 'Moved to the inbox' : 'Later';
  return `${what}${until ? `, ${untilText(until)}` : ''}. ${left} left.`;
};
