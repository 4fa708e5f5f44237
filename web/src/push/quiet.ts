import type { NotificationSettings } from '../api/push';

const DAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;

/** Checks whether quiet hours or a pause hold notifications back. */
export function isHeldBack({ paused_until, quiet, timezone }: NotificationSettings, now: Date): boolean {
  if (paused_until && Date.parse(paused_until) > now.getTime()) return true;
  if (!quiet) return false;
  const parts = new Intl.DateTimeFormat('en-US', {
    timeZone: timezone,
    weekday: 'short',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  }).formatToParts(now);
  const part = (type: string) => parts.find((p) => p.type === type)?.value ?? '';
  const day = DAYS.findIndex((d) => d === part('weekday').toLowerCase());
  const time = `${part('hour')}:${part('minute')}`;
  const beginsOn = (n: number) => quiet.days.includes(DAYS[(n + 7) % 7]!);
  const { from, to } = quiet;
  if (from < to) return beginsOn(day) && from <= time && time < to;
  return (beginsOn(day) && from <= time) || (beginsOn(day - 1) && time < to);
}
