import type { Channel } from '../api/types';
import { filePanel, panelHref } from '../files/address';
import type { Router } from '../lib/router.svelte';
import { upper } from '../lib/text';

const monthDay = new Intl.DateTimeFormat('en-US', { month: 'long', day: 'numeric' });
const monthDayYear = new Intl.DateTimeFormat('en-US', { month: 'long', day: 'numeric', year: 'numeric' });

/** "May 3", as in the quotations of replies; with the year unless it is this year. */
export function dayText(iso: string, now = new Date()): string {
  const date = new Date(iso);
  return (date.getFullYear() === now.getFullYear() ? monthDay : monthDayYear).format(date);
}

/** A file that a reply cites, and its passage, unless the file is cited as a whole. */
export interface CitedFile {
  file_id: string;
  label?: string;
  part?: number;
  from?: number;
  to?: number;
}

/** Address of a cited file in the panel, where the passage is marked. */
export function fileHref(router: Router, { file_id, part = 1, from, to }: CitedFile): string {
  const quote = from !== undefined && to !== undefined ? { from, to } : null;
  return panelHref(router.place, filePanel(file_id, part, quote));
}

/** "Handbook.pdf, page 12"; null if the message itself is cited, or while it is not loaded. */
export function fileText(
  source: { file_id?: string; label?: string },
  attachments?: readonly { id: string; name: string }[],
): string | null {
  const file = attachments?.find((a) => a.id === source.file_id);
  if (!file) return null;
  return source.label && source.label !== file.name ? `${file.name}, ${source.label}` : file.name;
}

/** "Ada in #ops, May 3"; while the message is not loaded, only the channel. */
export function sourceText(
  channel: Pick<Channel, 'kind' | 'name'>,
  message?: { author: string; at: string },
  now = new Date(),
): string {
  const place = channel.kind === 'direct' ? 'a direct message' : `#${channel.name}`;
  return message ? `${message.author} in ${place}, ${dayText(message.at, now)}` : upper(place);
}
