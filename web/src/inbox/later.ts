/** Times to postpone an item to, or to be reminded at, in the user's time zone. */
const at9 = (now: Date, days: number): Date =>
  new Date(now.getFullYear(), now.getMonth(), now.getDate() + days, 9);

export const laterChoices = (now = new Date()): readonly (readonly [string, Date])[] => [
  ['3 hours', new Date(now.getTime() + 3 * 3_600_000)],
  ['Tomorrow 9:00', at9(now, 1)],
  ['Monday 9:00', at9(now, (8 - now.getDay()) % 7 || 7)],
];

const two = (n: number): string => `${n}`.padStart(2, '0');
/** Value of a `datetime-local` field. */
export const fieldValue = (d: Date): string =>
  `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${two(d.getHours())}:${two(d.getMinutes())}`;

const MIN_MS = 60_000;
const MAX_MS = 365 * 86_400_000;
/** Reason that the server would refuse a time; blank if it accepts it. */
export function timeProblem(value: string, now = new Date()): string {
  const ms = new Date(value).getTime() - now.getTime();
  if (Number.isNaN(ms)) return 'Choose a day and a time.';
  if (ms < MIN_MS) return 'This time is in the past: choose a later one.';
  return ms > MAX_MS ? 'Choose a time within a year.' : '';
}
