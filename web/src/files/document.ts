import type { components } from '../api/schema';
import { upper } from '../lib/text';
import { plural } from '../lib/time';

export type ReadDocument = components['schemas']['DocumentStatus'];

/** Unit of the parts of a file, by its content type. */
function unitOf(type: string): string | null {
  if (type === 'application/pdf') return 'page';
  if (/presentation/.test(type)) return 'slide';
  return /spreadsheet|excel/.test(type) ? 'sheet' : null;
}

const FAILED: Record<NonNullable<ReadDocument['reason']>, string> = {
  scanned: 'A scan: agents cannot read it. Run ocrmypdf on it and attach the result.',
  encrypted: 'Locked with a password',
  damaged: 'Damaged: agents cannot read it',
  too_large: 'Too large for agents to read',
  too_slow: 'Agents cannot read it, because it took too long',
  no_text_map: 'Agents cannot read its characters',
  old_format: 'Save it in a current format, so that agents can read it',
};

/** Types of pictures that models can be shown. */
const PICTURES = /^image\/(png|jpeg|webp|gif)$/;

/** Visibility of an attached picture for agents; null for other files. */
export function pictureText(seen: boolean | null | undefined, type: string): string | null {
  if (!PICTURES.test(type) || seen === undefined || seen === null) return null;
  return seen ? 'Agents can see it' : 'The model cannot see it: describe it';
}

/** Readability of an attached file for agents. */
export function documentText(document: ReadDocument, type: string): string {
  const unit = unitOf(type);
  const count = unit ? ` (${plural(document.parts, unit)})` : '';
  switch (document.state) {
    case 'waiting':
      return 'Reading…';
    case 'ready':
      return `Agents can read it${count}`;
    case 'partial':
      return document.reason === 'scanned'
        ? 'Agents can read it, except for pages that are pictures'
        : `Agents can read part of it${count}`;
    case 'failed':
      return document.reason ? FAILED[document.reason] : 'Agents cannot read it';
    case 'none':
    case 'off':
      return 'Agents see only the name (not readable)';
  }
}

/** "Pages 3, 7 could not be read"; for the numbers of parts that were not read. */
export function unreadText(numbers: readonly number[], type: string): string {
  const unit = upper(unitOf(type) ?? 'part');
  return `${numbers.length === 1 ? unit : `${unit}s`} ${numbers.join(', ')} could not be read`;
}
