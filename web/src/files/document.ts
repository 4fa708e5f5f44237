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

const FAILED: Record<NonNullable<ReadDocument['reason']>, (agent: string, kind: string) => string> = {
  scanned: (agent, kind) =>
    `This ${kind} is a scan: ${agent} cannot read it. Run ocrmypdf on it and attach the result.`,
  encrypted: () => 'Locked with a password',
  damaged: (agent) => `Damaged: ${agent} cannot read it`,
  too_large: (agent) => `Too large: ${agent} cannot read it`,
  too_slow: (agent) => `It took too long: ${agent} cannot read it`,
  no_text_map: (agent) => `${agent} cannot read its characters`,
  old_format: (agent) => `Old format: ${agent} cannot read it. Save it in a current one.`,
};

/** Types of pictures that models can be shown. */
const PICTURES = /^image\/(png|jpeg|webp|gif)$/;

/** Visibility of an attached picture for agents; null for other files. */
export function pictureText(seen: boolean | null | undefined, type: string): string | null {
  if (!PICTURES.test(type) || seen === undefined || seen === null) return null;
  return seen ? 'Agents can see it' : 'The model cannot see it: describe it';
}

/** Result of reading a file, as the composer shows it. */
export interface Readability {
  document: ReadDocument;
  /** False if an agent gets only the parts that fit. */
  fits: boolean | null;
  /** Numbers of parts that were not read. */
  unread: readonly number[];
}

/** Readability of an attached file for an agent. */
export function documentText({ document, fits, unread }: Readability, type: string, agent: string): string {
  const unit = unitOf(type);
  const count = unit ? ` (${plural(document.parts, unit)})` : '';
  const whole = fits === false ? `${agent} reads the parts that fit` : `${agent} reads this file`;
  switch (document.state) {
    case 'waiting':
      return 'Reading…';
    case 'ready':
      return whole + count;
    case 'partial':
      return unread.length ? unreadText(unread, type) : `${agent} reads the parts that fit${count}`;
    case 'failed':
      return FAILED[document.reason ?? 'damaged'](agent, unit === 'page' ? 'PDF' : 'file');
    case 'none':
    case 'off':
      return `${agent} sees only the name (not readable)`;
  }
}

/** "Pages 3, 7 could not be read"; for the numbers of parts that were not read. */
export function unreadText(numbers: readonly number[], type: string): string {
  const unit = upper(unitOf(type) ?? 'part');
  return `${numbers.length === 1 ? unit : `${unit}s`} ${numbers.join(', ')} could not be read`;
}
