import type { CatchUp, CatchUpSection, UnreadGroup, UnreadSummary } from '../api/catch-up';
import { unread } from '../lib/numbers';
import { listed, oneLine } from '../lib/text';
import { plural, since } from '../lib/time';

/** Value of `by` if no model wrote the lines. */
const BUILT_IN = 'builtin';
/** Minimum number of messages for a model call; the server rejects fewer. */
const WRITTEN_MIN = 20;

const SECTIONS: readonly (readonly [CatchUpSection, string])[] = [
  ['decided', 'Decided'],
  ['asked', 'Asked of you'],
  ['open', 'Still open'],
  ['also', 'Also'],
];
export const GROUPS: Record<UnreadGroup['name'], string> = {
  wants_you: 'Wants you',
  results: 'Results',
  moving: 'Moving',
  quiet: 'Quiet',
};
/** Lines of a thread's catch-up by section, in the order of the sections; lines without one come last. */
export function sectionsOf(it: CatchUp): { name: string; lines: CatchUp['lines'] }[] {
  return SECTIONS.map(([key, name]) => ({
    name,
    lines: it.lines.filter(({ section }) => (section ?? 'also') === key),
  })).filter(({ lines }) => lines.length);
}

/** "34 messages since Tue 14:02 · Only you see this". */
export const headText = (count: number, from: string | null): string =>
  `${unread(count, 'message')}${from ? ` since ${since(from)}` : ''} · Only you see this`;

/** True if a model can write the catch-up and has not yet. */
export const canBeWritten = (it: CatchUp): boolean => it.by === BUILT_IN && it.count >= WRITTEN_MIN;
export const byText = (it: CatchUp): string =>
  it.by === BUILT_IN ? 'Summarized without a model.' : `Summarized by ${it.by} for you.`;

/** Note about the messages that the lines do not cover; empty if there are none. */
export function leftOutText({ left_out }: CatchUp): string {
  const parts = [
    left_out.lines ? plural(left_out.lines, 'sentence') : '',
    left_out.messages ? plural(left_out.messages, 'older message') : '',
  ].filter(Boolean);
  return parts.length ? `Left out: ${listed(parts)}.` : '';
}
/** Note about threads without a line; empty if there are none. */
export const restText = ({ left_out: { threads, messages } }: UnreadSummary): string =>
  threads ? `Left out: ${plural(threads, 'thread')} with ${unread(messages, 'message')}.` : '';

/** Block quote with its author, for a composer. */
export const quoted = (author: string, text: string): string => `> **${author}**: ${oneLine(text)}\n\n`;
