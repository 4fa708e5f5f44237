import type { WorkspaceExport } from '../api/exports';
import { sizeText } from '../files/size-text';
import { count } from '../lib/numbers';
import { full } from '../lib/time';

/** How far an archive is. */
export function progressText({ counts, size_bytes }: Pick<WorkspaceExport, 'counts' | 'size_bytes'>): string {
  const messages = counts.messages ?? 0;
  const parts = messages ? [`${count(messages)} messages`] : [];
  return ['Writing the archive', ...parts, sizeText(size_bytes)].join(', ');
}
/** What can be downloaded, and until when. */
export const readyText = ({ size_bytes, expires_at }: WorkspaceExport): string =>
  `${sizeText(size_bytes)}${expires_at ? `. Ready until ${full(expires_at)}.` : ''}`;
/** True if the archive can be downloaded. */
export const isReady = ({ state, expires_at }: WorkspaceExport, now = Date.now()): boolean =>
  state === 'done' && (expires_at === null || Date.parse(expires_at) > now);
