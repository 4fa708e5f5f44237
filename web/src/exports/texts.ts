import type { WorkspaceExport } from '../api/exports';
import { sizeText } from '../files/size-text';
import { count } from '../lib/numbers';
import { clock } from '../lib/time';

/** How far an archive is. */
export function progressText({ counts, size_bytes }: Pick<WorkspaceExport, 'counts' | 'size_bytes'>): string {
  const messages = counts.messages ?? 0;
  const parts = messages ? [`${count(messages)} messages`] : [];
  return ['Writing the archive', ...parts, sizeText(size_bytes)].join(', ');
}
/** What can be downloaded, and until when, which is at most a day away. */
export function readyText({ size_bytes, expires_at }: WorkspaceExport, now = new Date()): string {
  const size = sizeText(size_bytes);
  if (!expires_at) return size;
  const isToday = new Date(expires_at).toDateString() === now.toDateString();
  return `${size}. Ready until ${isToday ? 'today' : 'tomorrow'}, ${clock(expires_at)}.`;
}
/** True if the archive can be downloaded. */
export const isReady = ({ state, expires_at }: WorkspaceExport, now = Date.now()): boolean =>
  state === 'done' && (expires_at === null || Date.parse(expires_at) > now);
