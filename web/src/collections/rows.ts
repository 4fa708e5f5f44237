import type { CollectionFile, CollectionUrl } from '../api/collections';
import { plural } from '../lib/time';

/** A line of the table: a file, a web page that was not read yet, or a page with its file. */
export interface Row {
  path: string;
  file: CollectionFile | null;
  url: CollectionUrl | null;
}

export function rowsOf(files: readonly CollectionFile[], urls: readonly CollectionUrl[]): Row[] {
  const rows = new Map<string, Row>(files.map((file) => [file.path, { path: file.path, file, url: null }]));
  for (const url of urls) rows.set(url.path, { path: url.path, file: rows.get(url.path)?.file ?? null, url });
  return [...rows.values()].sort((a, b) => a.path.localeCompare(b.path));
}

const UNITS: [RegExp, string][] = [
  [/\.pdf$/i, 'page'],
  [/\.(pptx|odp)$/i, 'slide'],
  [/\.(xlsx|xls|ods)$/i, 'sheet'],
];
const REASONS: Record<NonNullable<CollectionFile['document']['reason']>, string> = {
  scanned: 'Scan',
  encrypted: 'Locked with a password',
  damaged: 'Damaged',
  too_large: 'Too large',
  too_slow: 'Too slow',
  no_text_map: 'Unknown characters',
  old_format: 'Old format',
};

/** Short text about the readable part of a file. */
export function readText({ document, status, filename }: CollectionFile): string {
  if (status === 'in_progress') return 'Waiting';
  const unit = UNITS.find(([ending]) => ending.test(filename))?.[1] ?? 'part';
  switch (document.state) {
    case 'waiting':
      return 'Waiting';
    case 'ready':
      return plural(document.parts, unit);
    case 'partial':
      return `Some of ${plural(document.parts, unit)}`;
    case 'failed':
      return document.reason ? REASONS[document.reason] : 'Not read';
    case 'none':
      return 'No text';
    case 'off':
      return 'Not read';
  }
}

/** Checks whether a file, or its next version, is still being read. */
export const isWaiting = ({ status, replacement }: CollectionFile): boolean =>
  status === 'in_progress' || replacement?.status === 'in_progress';

export const iso = (seconds: number): string => new Date(seconds * 1000).toISOString();

/** Second line about a row: a new version, or a page that could not be read again. */
export function noteText({ file, url }: Row, day: (iso: string) => string): string {
  const next = file?.replacement;
  if (next?.status === 'failed')
    return `The new version could not be read: ${next.last_error?.message ?? 'it has no text.'}`;
  if (next) return 'New version: waiting';
  if (!url?.failure) return '';
  return url.refreshed_at === null
    ? `Not read: ${url.failure}`
    : `Not refreshed since ${day(iso(url.refreshed_at))}: ${url.failure}`;
}

/** Text about the files that could not be read; blank if there are none. */
export function unreadText(files: readonly CollectionFile[]): string {
  const unread = files.filter((file) => file.status === 'failed').length;
  return unread ? `${unread} of ${plural(files.length, 'file')} could not be read` : '';
}
