const DAY_MS = 86_400_000;
const weekday = new Intl.DateTimeFormat('en-GB', { weekday: 'long', timeZone: 'UTC' });
const dayMonth = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });
const dayMonthYear = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  timeZone: 'UTC',
});

export type DueGroup = 'overdue' | 'week' | 'later' | 'none';
export const DUE_GROUPS: readonly [DueGroup, string][] = [
  ['overdue', 'Overdue'],
  ['week', 'This week'],
  ['later', 'Later'],
  ['none', 'No date'],
];

/** Whole days from today, in the user's time zone, to a date (`2026-01-31`). Negative for past dates. */
export function daysUntil(due: string, now = new Date()): number {
  const today = Date.UTC(now.getFullYear(), now.getMonth(), now.getDate());
  return Math.round((Date.parse(`${due}T00:00:00Z`) - today) / DAY_MS);
}
/** Group of a due date; a week ends on Sunday. */
export function dueGroup(due: string | null, now = new Date()): DueGroup {
  if (!due) return 'none';
  const days = daysUntil(due, now);
  const toSunday = (7 - now.getDay()) % 7;
  return days < 0 ? 'overdue' : days <= toSunday ? 'week' : 'later';
}
/**
 * "Overdue since 3 Mar", "Due today", "Due tomorrow", "Due Friday", "Due 12 Mar". Completed items are never overdue.
 */
export function dueText(due: string, done: boolean, now = new Date()): string {
  const days = daysUntil(due, now);
  const date = new Date(`${due}T00:00:00Z`);
  const day = (date.getUTCFullYear() === now.getFullYear() ? dayMonth : dayMonthYear).format(date);
  if (done) return `Due ${day}`;
  if (days < 0) return `Overdue since ${day}`;
  if (days === 0) return 'Due today';
  if (days === 1) return 'Due tomorrow';
  return days < 7 ? `Due ${weekday.format(date)}` : `Due ${day}`;
}
