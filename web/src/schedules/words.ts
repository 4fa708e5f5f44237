import type { LastSlot, Schedule } from '../api/schedules';
import { clock } from '../lib/time';
import { DAYS, presetOf } from './cron';

const utc = (options: Intl.DateTimeFormatOptions) =>
  new Intl.DateTimeFormat('en-GB', { ...options, timeZone: 'UTC' });
const weekday = utc({ weekday: 'short' });
const dayMonth = utc({ day: 'numeric', month: 'long' });
const dayMonthYear = utc({ day: 'numeric', month: 'long', year: 'numeric' });

/** A time of day in the user's format, on a day without a clock change. */
const clockAt = (hour: number, minute: number) => clock(new Date(2001, 0, 15, hour, minute).toISOString());
const dateText = (date: Date, hour: number, minute: number, now: Date) => {
  const days = date.getUTCFullYear() === now.getFullYear() ? dayMonth : dayMonthYear;
  return `${weekday.format(date)} ${days.format(date)}, ${clockAt(hour, minute)}`;
};

/** "Tue 24 November, 09:00" for a local time of any zone, such as `2026-11-24T09:00`. */
export function localText(local: string, now = new Date()): string {
  const found = /^(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)/.exec(local);
  if (!found) return local;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0] = found.slice(1).map(Number);
  return dateText(new Date(Date.UTC(year, month - 1, day)), hour, minute, now);
}
/** "Tue 24 November, 09:00" in the user's time zone. */
export function instantText(iso: string, now = new Date()): string {
  const at = new Date(iso);
  const day = new Date(Date.UTC(at.getFullYear(), at.getMonth(), at.getDate()));
  return dateText(day, at.getHours(), at.getMinutes(), now);
}

/** "Weekdays at 09:00"; times without a preset as their cron expression. */
export function timesText(cron: string): string {
  const preset = presetOf(cron);
  if (!preset) return `Custom (${cron})`;
  const [hour = 0, minute = 0] = preset.time.split(':').map(Number);
  const days = {
    daily: 'Every day',
    weekdays: 'Weekdays',
    weekly: `Every week on ${DAYS[preset.day]}`,
  }[preset.when];
  return `${days} at ${clockAt(hour, minute)}`;
}

const SLOTS: Record<LastSlot['state'], string> = {
  fired: 'Last run',
  skipped: 'Skipped',
  missed: 'Missed',
};
/** "Last run: Tue 24 November, 09:00". */
export const slotText = (slot: LastSlot, now = new Date()): string =>
  `${SLOTS[slot.state]}: ${instantText(slot.at, now)}`;

/** Owner of a schedule; the name is kept after they have left the workspace. */
export interface Owner {
  name: string | null;
  isMember: boolean;
  isMe: boolean;
}
/** Reason why a schedule is paused. */
export function pausedText(reason: Schedule['paused_reason'], owner: Owner): string {
  const name = owner.name ?? 'its owner';
  switch (reason) {
    case 'owner_gone':
      if (!owner.isMember) return `Paused: ${name} left the workspace.`;
      return `Paused: ${owner.isMe ? 'you' : name} can no longer post there or use the agent.`;
    case 'failing':
      return 'Paused: five runs in a row failed.';
    case 'by_admin':
      return 'Paused by an admin.';
    default:
      return 'Paused.';
  }
}
