/** Times that can be chosen without cron. */
export type When = 'daily' | 'weekdays' | 'weekly';
export interface Preset {
  when: When;
  /** `HH:MM`. */
  time: string;
  /** Day of a weekly run; Sunday is 0. */
  day: number;
}

export const WHEN: Record<When | 'custom', string> = {
  daily: 'Every day',
  weekdays: 'Weekdays',
  weekly: 'Every week',
  custom: 'Custom',
};
export const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const NAMES = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const MONDAY = 1;

/** The preset with the same times; null if there is none. */
export function presetOf(cron: string): Preset | null {
  const found = /^(\d{1,2})\s+(\d{1,2})\s+\*\s+\*\s+(\S+)$/.exec(cron.trim());
  if (!found) return null;
  const [, minute = '', hour = '', days = ''] = found;
  if (Number(minute) > 59 || Number(hour) > 23) return null;
  const time = `${hour.padStart(2, '0')}:${minute.padStart(2, '0')}`;
  if (days === '*') return { when: 'daily', time, day: MONDAY };
  if (/^(1-5|mon-fri)$/i.test(days)) return { when: 'weekdays', time, day: MONDAY };
  const day = /^[0-7]$/.test(days) ? Number(days) % 7 : NAMES.indexOf(days.toLowerCase());
  return day < 0 ? null : { when: 'weekly', time, day };
}

export function cronOf({ when, time, day }: Preset): string {
  const [hour = 0, minute = 0] = time.split(':').map(Number);
  const days = { daily: '*', weekdays: '1-5', weekly: String(day) }[when];
  return `${minute} ${hour} * * ${days}`;
}
