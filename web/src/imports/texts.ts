import type {
  ArchiveImport,
  ImportChannel,
  ImportNumbers,
  ImportPreview,
  ImportReport,
} from '../api/imports';
import { sizeText } from '../files/size-text';
import { count } from '../lib/numbers';
import { listed } from '../lib/text';

/** "1,204 messages". */
export const counted = (n: number, one: string, many = `${one}s`): string =>
  `${count(n)} ${n === 1 ? one : many}`;

export const percent = (part: number, all: number): number =>
  all > 0 ? Math.min(100, Math.floor((part / all) * 100)) : 0;

/** Contents of an archive, in one sentence. */
export function contentText(n: ImportNumbers): string {
  const files = (n.files_here ?? 0) + (n.files_linked ?? 0) + (n.files_missing ?? 0);
  const parts = [
    counted(n.messages ?? 0, 'message'),
    counted(n.people ?? 0, 'person', 'people'),
    counted(n.channels ?? 0, 'channel'),
    ...(files ? [counted(files, 'file')] : []),
  ];
  return `Found ${listed(parts)}.`;
}
/** Storage that an import needs. It pauses if the workspace has less. */
export function storageText({ bytes_needed = 0, bytes_free = 0 }: ImportPreview): string {
  const [needed, free] = [sizeText(bytes_needed), sizeText(bytes_free)];
  if (bytes_needed > bytes_free) return `They need ${needed}, but only ${free} of storage is free.`;
  return `They need ${needed} of storage; ${free} is free.`;
}
/** Files that the archive lacks; empty if there are none. */
export function missingText(n: ImportNumbers): string {
  if (!n.files_missing) return '';
  return `${counted(n.files_missing, 'file')} ${n.files_missing === 1 ? 'is' : 'are'} not in the export anymore.`;
}
/**
 * Future readers of private channels and direct conversations; empty if there are none of these. `own` is the number of those that the
 * person was in, as far as it is known.
 */
export function privateText(n: ImportNumbers, isMatched: boolean, own: number): string {
  const [rooms, directs] = [n.private_channels ?? 0, n.direct_channels ?? 0];
  if (rooms + directs === 0) return '';
  const parts = [
    ...(rooms ? [counted(rooms, 'private channel')] : []),
    ...(directs ? [counted(directs, 'direct conversation')] : []),
  ];
  const [its, them] = rooms + directs === 1 ? ['its', 'it'] : ['their', 'them'];
  const seen = own ? `You are in ${count(own)}.` : 'You will see what you were in.';
  const you = isMatched ? seen : 'Match yourself below to see what you were in.';
  return `${listed(parts)}: only ${its} members will see ${them}. ${you}`;
}
export function becomesText(
  channel: ImportChannel,
  leftOut: boolean,
  nameOf: (id: string) => string,
): string {
  if (leftOut) return 'left out';
  if (channel.kind !== 'public') return channel.kind;
  return channel.becomes === 'joins' && channel.channel_id ? `joins #${nameOf(channel.channel_id)}` : 'new';
}
/** Label of the button that starts an import. */
export function startText({ counts, channels }: ImportPreview, leftOut: ReadonlySet<string>): string {
  if (leftOut.size > 0)
    return `Import ${counted(channels!.filter((c) => !leftOut.has(c.key)).length, 'channel')}`;
  const minutes = counts?.minutes ? `, about ${counted(counts.minutes, 'minute')}` : '';
  return `Import ${counted(counts?.messages ?? 0, 'message')}${minutes}`;
}

function leftText(seconds: number | null): string {
  if (seconds === null || seconds === 0) return '';
  return seconds < 60 ? ', less than a minute left' : `, ${counted(Math.ceil(seconds / 60), 'minute')} left`;
}
/** Progress of an import that stores, waits, or is being undone. */
export function progressText(of: ArchiveImport): string {
  const part = `${percent(of.done, of.total)} %`;
  if (of.state === 'undoing') return of.total ? `Undoing, ${part}` : 'Undoing';
  if (of.state === 'paused') return `Paused at ${part}`;
  if (of.phase !== 'messages') return `Importing ${of.phase}`;
  const speed = of.per_second ? `, ${count(of.per_second)} per second` : '';
  return `Importing, ${part}${speed}${leftText(of.eta_s)}`;
}
/** Result of an import. */
export function doneText(report: ImportReport): string {
  const n = report.kinds?.messages;
  const here = n?.existing ? ` ${count(n.existing)} were here already.` : '';
  return `Done. ${count(n?.imported ?? 0)} imported, ${count(n?.left_out ?? 0)} left out.${here}`;
}
