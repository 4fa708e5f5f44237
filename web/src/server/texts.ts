import type { Backups, Certificate, Check, Mail, ServerInfo } from '../api/server';
import { sizeText } from '../files/size-text';
import { listed } from '../lib/text';
import { clock, plural } from '../lib/time';

export type Tone = 'ok' | 'wait' | 'bad';
export interface Sentence {
  tone: Tone;
  text: string;
}
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const date = new Intl.DateTimeFormat('en-US', { month: 'long', day: 'numeric' });
const dateWithYear = new Intl.DateTimeFormat('en-US', { month: 'long', day: 'numeric', year: 'numeric' });
const weekday = new Intl.DateTimeFormat('en-US', { weekday: 'long' });
const midnight = (d: Date) => new Date(d.getFullYear(), d.getMonth(), d.getDate()).getTime();
/** Days from today; negative in the past. */
const daysFrom = (iso: string, now: Date) => Math.round((midnight(new Date(iso)) - midnight(now)) / DAY_MS);

/** "May 3", with the year unless it is the current one. */
export const dateText = (iso: string, now = new Date()): string =>
  (new Date(iso).getFullYear() === now.getFullYear() ? date : dateWithYear).format(new Date(iso));

/** "just now", "7 hours ago", "3 days ago". */
export function agoText(iso: string, now = new Date()): string {
  const minutes = Math.floor((now.getTime() - Date.parse(iso)) / MINUTE_MS);
  if (minutes < 1) return 'just now';
  if (minutes < 60) return `${plural(minutes, 'minute')} ago`;
  if (minutes < 24 * 60) return `${plural(Math.floor(minutes / 60), 'hour')} ago`;
  return `${plural(Math.floor(minutes / (24 * 60)), 'day')} ago`;
}
/** "today", "yesterday", "on Sunday", "on May 3". */
export function dayText(iso: string, now = new Date()): string {
  const days = daysFrom(iso, now);
  if (days >= 0) return 'today';
  if (days === -1) return 'yesterday';
  return `on ${days > -7 ? weekday.format(new Date(iso)) : dateText(iso, now)}`;
}
/** "at 03:30", "tomorrow at 03:30", "on May 3 at 03:30". */
export function nextText(iso: string, now = new Date()): string {
  const days = daysFrom(iso, now);
  const day = days <= 0 ? '' : days === 1 ? 'tomorrow ' : `on ${dateText(iso, now)} `;
  return `${day}at ${clock(iso)}`;
}

const INSTALLED: Record<ServerInfo['installed'], string> = {
  binary: '',
  deb: ', from the Debian package',
  image: ', in a container',
  source: ', built from source',
};
const COMMIT_LENGTH = 7;
export function versionText(s: ServerInfo, now = new Date()): string {
  const commit = s.commit ? ` (${s.commit.slice(0, COMMIT_LENGTH)})` : '';
  return `OpenVibe ${s.version}${commit}${INSTALLED[s.installed]}. Started ${agoText(s.started_at, now)}.`;
}

/** A newer version, or the failure to look for one; null if there is nothing to say. */
export function updateText({ version, update }: Pick<ServerInfo, 'version' | 'update'>): Sentence | null {
  if (update.error) return { tone: 'wait', text: `Could not look for updates: ${ended(update.error)}` };
  if (!update.latest || update.latest === version) return null;
  const kind = update.security ? ', a security update,' : '';
  return {
    tone: update.security ? 'bad' : 'wait',
    text: `${update.latest}${kind} is available: sudo openvibe update`,
  };
}

export function certificateText(c: Certificate, now = new Date()): Sentence {
  const names = listed(c.names);
  if (c.source === 'proxy')
    return { tone: 'ok', text: 'A proxy in front of this server has the certificate.' };
  if (c.source === 'none') return { tone: 'wait', text: 'This server does not use HTTPS.' };
  const until = c.expires_at && dateText(c.expires_at, now);
  if (c.state === 'pending')
    return { tone: 'wait', text: `The first certificate for ${names} is being ordered.` };
  const isOver =
    c.state === 'expired' || (c.expires_at !== null && Date.parse(c.expires_at) <= now.getTime());
  const valid = until ? `${isOver ? 'Expired on' : 'Valid until'} ${until}` : 'There is no certificate';
  if (isOver || !until) return { tone: 'bad', text: `${valid}.` };
  if (c.source === 'files')
    return {
      tone: c.state === 'failing' ? 'bad' : 'ok',
      text: `${valid}. Replace its files before then: they are read again within a minute.`,
    };
  if (c.state === 'failing') return { tone: 'bad', text: `${valid}, and could not be renewed.` };
  const renews = c.renew_at ? `, renews itself on ${dateText(c.renew_at, now)}` : '';
  return { tone: 'ok', text: `${valid}${renews}.` };
}
/** Cause of a failure, and the next attempt; blank if there is none. */
export function certificateProblem(c: Certificate, now = new Date()): string {
  if (!c.error) return '';
  const next = c.next_attempt_at ? ` The next attempt is ${nextText(c.next_attempt_at, now)}.` : '';
  return `${c.error.text}${/[.!?]$/.test(c.error.text) ? '' : '.'}${next}`;
}

/** Newest backup and its test. */
export function backupText(b: Backups, now = new Date()): Sentence {
  if (!b.to)
    return {
      tone: 'wait',
      text: 'No backups: set OPENVIBE_BACKUP_TO to a directory or a bucket.',
    };
  if (!b.last) return { tone: 'wait', text: 'There is no backup yet.' };
  const last = `Last backup ${agoText(b.last.at, now)}, ${sizeText(b.last.bytes)}.`;
  const { drill } = b;
  if (!drill) return { tone: 'wait', text: `${last} Not tested yet.` };
  const day = dayText(drill.at, now);
  if (drill.fault !== null)
    return { tone: 'bad', text: `${last} The test ${day} found a fault: ${ended(drill.fault)}` };
  if (drill.skipped !== null)
    return { tone: 'wait', text: `${last} Not tested ${day}: ${ended(drill.skipped)}` };
  return { tone: 'ok', text: `${last} Restored and compared ${day}.` };
}
const ended = (text: string) => (/[.!?]$/.test(text) ? text : `${text}.`);
/** Failure or next run of the backups; blank if there are none. */
export function nextBackupText(b: Backups, now = new Date()): string {
  if (!b.to) return '';
  const next = b.next_at ? `Next backup ${nextText(b.next_at, now)}.` : '';
  return b.error === null ? next : `The newest backup failed: ${ended(b.error)} ${next}`.trim();
}

/** Whether emails are sent. */
export function mailText(m: Mail): Sentence {
  if (!m.enabled) return { tone: 'wait', text: 'Email is off. Set OPENVIBE_SMTP_URL to turn it on.' };
  const waiting = m.waiting ? ` ${plural(m.waiting, 'email')} ${m.waiting === 1 ? 'waits' : 'wait'}.` : '';
  if (m.problem) return { tone: 'bad', text: `No email can be sent: ${ended(m.problem.text)}${waiting}` };
  return { tone: 'ok', text: `Email is on.${waiting}` };
}

export const CHECK_STATES: Record<Check['state'], { word: string; tone: Tone | 'off' }> = {
  failed: { word: 'Failed', tone: 'bad' },
  warning: { word: 'Warning', tone: 'wait' },
  ok: { word: 'OK', tone: 'ok' },
  skipped: { word: 'Skipped', tone: 'off' },
};
const ORDER = Object.keys(CHECK_STATES);
/** Failed checks come first. */
export const sorted = (checks: Check[]): Check[] =>
  [...checks].sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state));
/** "1 failed, 2 warnings, 14 OK." */
export function checksText(checks: Check[] | null, at: string | null, now = new Date()): string {
  if (!checks || !at) return 'Not checked yet.';
  const count = (state: Check['state']) => checks.filter((check) => check.state === state).length;
  const [failed, warnings] = [count('failed'), count('warning')];
  const found = [failed && `${failed} failed`, warnings && plural(warnings, 'warning')].filter(Boolean);
  return `Checked ${agoText(at, now)}: ${found.length ? found.join(', ') : 'nothing is wrong'}.`;
}
/** "sign_in" as "Sign in". */
export const checkName = (name: string): string =>
  (name.charAt(0).toUpperCase() + name.slice(1)).replaceAll('_', ' ');

const DAYS_LEFT_MIN = 7;
const ENGINES: Record<ServerInfo['database']['engine'], string> = {
  sqlite: 'SQLite',
  postgresql: 'PostgreSQL',
};
export function diskText({ disk, database }: Pick<ServerInfo, 'disk' | 'database'>): Sentence {
  const free =
    disk.free_bytes === null ? 'The free space cannot be measured.' : `${sizeText(disk.free_bytes)} free.`;
  const left = disk.days_left;
  const size = ` The ${ENGINES[database.engine]} database has ${sizeText(database.bytes)}.`;
  if (disk.uploads_paused && disk.free_bytes !== null)
    return { tone: 'bad', text: `${sizeText(disk.free_bytes)} free: uploads are paused.${size}` };
  const full = left === null ? '' : ` At this rate, the disk is full in ${plural(left, 'day')}.`;
  return { tone: left !== null && left < DAYS_LEFT_MIN ? 'bad' : 'ok', text: `${free}${full}${size}` };
}
