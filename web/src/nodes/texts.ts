import type { ListedNode } from '../api/admin-types';
import { listed } from '../lib/text';
import { sizeText } from '../files/size-text';
import { seconds } from '../lib/time';

type Tone = 'ok' | 'wait' | 'bad';
export const STATES: Record<ListedNode['state'], { word: string; tone: Tone }> = {
  starting: { word: 'Starting', tone: 'wait' },
  ready: { word: 'Ready', tone: 'ok' },
  draining: { word: 'Draining', tone: 'wait' },
  lost: { word: 'Lost', tone: 'bad' },
};
export const BUSES: Record<ListedNode['mode'], string> = {
  local: 'In this process',
  notify: 'PostgreSQL',
  nats: 'NATS',
};

/** Number of nodes that are not lost. */
export function countText(nodes: ListedNode[]): string {
  const live = nodes.filter((n) => n.state !== 'lost').length;
  return live > 1 ? `${live} servers use this database.` : 'One server uses this database.';
}

/** "< 1 min", "12 min", "4 h 12 min", "3 d 4 h". */
export function uptimeText(startedAt: string, now: Date): string {
  const minutes = Math.floor((now.getTime() - Date.parse(startedAt)) / 60_000);
  const hours = Math.floor(minutes / 60);
  if (minutes < 1) return '< 1 min';
  if (hours < 1) return `${minutes} min`;
  return hours < 24 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** "< 1 ms", "18 ms", "1.5 s", "2 min 3 s". */
export function delayText(ms: number): string {
  if (ms < 1) return '< 1 ms';
  return ms < 999.5 ? `${Math.round(ms)} ms` : seconds(ms);
}

/** Clock difference above which the server logs a warning, too. */
const SKEW_MAX_MS = 2000;
export const isClockOff = (n: ListedNode): boolean => Math.abs(n.clock_skew_ms) > SKEW_MAX_MS;
/** "0 ms", "+18 ms", "−2.4 s". */
export function skewText(ms: number): string {
  if (ms === 0) return '0 ms';
  return `${ms < 0 ? '−' : '+'}${delayText(Math.abs(ms))}`;
}

export const shortEpoch = (epoch: string): string => epoch.slice(0, 8);

const FILE_BYTES_MAX = 10 * 1024 ** 3;
/** Advice about many files in the database; null if there are few. */
export function filesWarning(bytes: number): string | null {
  if (bytes <= FILE_BYTES_MAX) return null;
  return `${sizeText(bytes)} of files are in PostgreSQL: set OPENVIBE_BLOBS_URL to an S3 bucket on all nodes, then move them with “openvibe blobs move”.`;
}

/** The setting without which a node cannot read what the others store. */
const SECRET_KEY = 'OPENVIBE_SECRET_KEY';

/** Warnings about a node, with advice. `own` is the name of the node that responded. */
export function warningsOf(n: ListedNode, own: string): string[] {
  if (n.state === 'lost')
    return [
      'It crashed or cannot reach the database. Other nodes have taken over its work. It is listed for a day unless it comes back.',
    ];
  const warnings: string[] = [];
  const names = n.differing_settings;
  if (names.length) {
    const [verb, values] = names.length === 1 ? ['differs', 'value'] : ['differ', 'values'];
    warnings.push(
      `${listed(names)} ${verb} from ${own}: set the same ${values} on all nodes, then restart those that you changed.`,
    );
  }
  if (names.includes(SECRET_KEY))
    warnings.push(
      `Nodes with different keys in ${SECRET_KEY} do not work together: the one that started later serves nobody and runs no tasks.`,
    );
  if (n.mode === 'nats' && !n.encrypts_messages)
    warnings.push(
      'Its version does not encrypt messages, so other nodes ignore what it sends over NATS. Its events arrive over PostgreSQL: upgrade it.',
    );
  if (n.open_nats !== null)
    warnings.push(
      `Anyone who reaches NATS at ${n.open_nats} can see which workspaces are active and delay messages between nodes, but not read or forge them: set a user and password in OPENVIBE_NATS_URL.`,
    );
  if (isClockOff(n)) {
    const side = n.clock_skew_ms > 0 ? 'ahead of' : 'behind';
    const time = delayText(Math.abs(n.clock_skew_ms));
    warnings.push(`Its clock is ${time} ${side} the database’s: synchronize both clocks.`);
  }
  return warnings;
}
