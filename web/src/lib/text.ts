import type { Agent, Message, Thread } from '../api/types';

export const upper = (s: string): string => s.charAt(0).toUpperCase() + s.slice(1);
export const oneLine = (s: string): string => s.replace(/\s+/g, ' ').trim();

/**
 * Shows characters that are invisible, or that reorder their neighbors, as codes: `bob\u{202E}`. They can
 * carry data that a person would approve unread. Variation selectors of emoji are kept.
 */
export const withCodes = (text: string): string =>
  text.replace(
    /(?![\n\t]|(?<=\p{Extended_Pictographic})[\uFE0E\uFE0F])[\p{C}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\u2800]/gu,
    (c) => `\\u{${c.codePointAt(0)!.toString(16).toUpperCase()}}`,
  );

/** Removes enough Markdown for a preview of text that the server has not processed yet. */
export const plain = (s: string): string =>
  oneLine(
    s
      .replace(/```[\s\S]*?(```|$)/g, ' code ')
      .replace(/!?\[([^\][]*)\]\([^()]*\)/g, '$1')
      .replace(/^\s{0,3}(#{1,6}|>|[-*+]|\d{1,9}[.)])\s+/gm, '')
      .replace(/[*_`~]/g, ''),
  );

/** A line of a prompt without the author prefix `[Name]: `. */
export const withoutLabel = (s: string): string => s.replace(/^\[[^\]\n]{1,120}\]: /, '');

const cut = (s: string, max: number) => (s.length <= max ? s : s.slice(0, max - 1).trimEnd() + '…');
const firstLine = (s: string) => s.split('\n').find((l) => l.trim()) ?? '';
/** Replacement for a message without text. */
export const fileNames = (m: Pick<Message, 'attachments'>): string =>
  m.attachments.map((a) => a.name).join(', ');

export function threadTitle(thread: Pick<Thread, 'title' | 'root_message'> | undefined): string {
  if (!thread) return 'Thread';
  if (thread.title) return thread.title;
  const root = thread.root_message;
  if (!root) return 'Thread';
  if (root.deleted_at) return 'Deleted message';
  return cut(oneLine(firstLine(root.content_plain)) || fileNames(root) || 'Thread', 120);
}

/** Default title of a fork from this message. */
export const titleFrom = (m: Message): string =>
  cut(oneLine(firstLine(m.content_plain)) || fileNames(m) || 'Deep dive', 60);

/** Headline of a resolution message. */
export const headline = (card: Message): string => oneLine(firstLine(card.content_plain));

export const preview = (m: Message): string =>
  m.deleted_at
    ? 'Message deleted'
    : oneLine(m.content_plain) || fileNames(m) || (m.state === 'streaming' ? 'is writing…' : '…');

export const agentName = (a: Pick<Agent, 'name'> & Partial<Pick<Agent, 'display_name'>>): string =>
  a.display_name || a.name;

export const initials = (name: string, max = 2): string =>
  name
    .split(/\s+/)
    .map((w) => [...w][0] ?? '')
    .join('')
    .slice(0, max)
    .toUpperCase() || '?';

/** Twelve hues, 30° apart: far enough to distinguish people and agents. */
const HUES = Array.from({ length: 12 }, (_, n) => 15 + 30 * n);

/** Stable hue for a person or agent, from the ID. */
export function hueOf(id: string): number {
  let h = 2166136261;
  for (let i = 0; i < id.length; i++) h = Math.imul(h ^ id.charCodeAt(i), 16777619);
  return HUES[(h >>> 0) % HUES.length]!;
}

/** "Ada", "Ada and Bo", "Ada, Bo, and Cy". */
export function listed(names: readonly string[]): string {
  if (names.length < 3) return names.join(' and ');
  return `${names.slice(0, -1).join(', ')}, and ${names.at(-1)}`;
}
