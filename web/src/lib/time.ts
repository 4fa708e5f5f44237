export type Clock = '12' | '24';
const formats = (clock: Clock) => ({
  clock:
    clock === '12'
      ? new Intl.DateTimeFormat('en-US', { hour: 'numeric', minute: '2-digit' })
      : new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' }),
  full: new Intl.DateTimeFormat('en-GB', { dateStyle: 'full', timeStyle: 'short', hour12: clock === '12' }),
});
let format = formats('24');
/** Sets the format of times of day in this window. */
export const useClock = (clock: Clock): void => void (format = formats(clock));
const weekday = new Intl.DateTimeFormat('en-GB', { weekday: 'long' });
const shortWeekday = new Intl.DateTimeFormat('en-GB', { weekday: 'short' });
const dayMonth = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'long' });
const dayMonthYear = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'long', year: 'numeric' });
const DAY_MS = 86_400_000;

export const clock = (iso: string): string => format.clock.format(new Date(iso));
export const full = (iso: string): string => format.full.format(new Date(iso));

/** Today / Yesterday / weekday / date, in the user's time zone. */
export function dayOf(iso: string, now = new Date()): string {
  const date = new Date(iso);
  const midnight = (d: Date) => new Date(d.getFullYear(), d.getMonth(), d.getDate()).getTime();
  const days = Math.round((midnight(now) - midnight(date)) / DAY_MS);
  if (days <= 0) return 'Today';
  if (days === 1) return 'Yesterday';
  if (days < 7) return weekday.format(date);
  return date.getFullYear() === now.getFullYear() ? dayMonth.format(date) : dayMonthYear.format(date);
}

/** The time, with the day unless it is today: "14:02", "Tue 14:02", "3 November 14:02". */
export function since(iso: string, now = new Date()): string {
  const day = dayOf(iso, now);
  if (day === 'Today') return clock(iso);
  const date = new Date(iso);
  const recent = day === 'Yesterday' || day === weekday.format(date);
  return `${recent ? shortWeekday.format(date) : day} ${clock(iso)}`;
}

/** "just now", "5 min ago", then the day: where the exact minute does not matter. */
export function ago(iso: string, now = new Date()): string {
  const minutes = Math.floor((now.getTime() - Date.parse(iso)) / 60_000);
  if (minutes < 1) return 'just now';
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ago`;
  return dayOf(iso, now).replace(/^Yesterday$/, 'yesterday');
}

export const seconds = (ms: number): string =>
  ms < 100
    ? '< 0.1 s'
    : ms < 60_000
      ? `${(ms / 1000).toFixed(1)} s`
      : `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;

export const plural = (n: number, one: string, many = `${one}s`): string => `${n} ${n === 1 ? one : many}`;
