import type { Candidate } from './complete';
import table from './emoji.txt?raw';

/*
 * Emoji with the names that people and models write between colons. The server reads the same table
 * (`src/chat/emoji.rs`). Each line: CHARACTER NAME… [| SEARCH WORD…].
 */

export interface Emoji {
  char: string;
  /** Names and search words separated by spaces; the first name is the one that is shown. */
  names: string;
}
const byName = new Map<string, string>();
const EMOJI: readonly Emoji[] = table
  .trim()
  .split('\n')
  .map((line) => {
    const [char, ...words] = line.split(' ');
    const end = words.indexOf('|');
    for (const name of end < 0 ? words : words.slice(0, end)) byName.set(name, char!);
    return { char: char!, names: words.filter((word) => word !== '|').join(' ') };
  });

/** Completion candidates for emoji names. */
export const candidates = (): Candidate[] =>
  EMOJI.map(({ char, names }) => ({
    key: char,
    kind: 'emoji',
    insert: char,
    title: names,
    handle: names.split(' ')[0]!,
    note: '',
  }));

export const emojiNamed = (name: string): string | undefined => byName.get(name);

export function searchEmoji(query: string, max: number): Emoji[] {
  const q = query.trim().toLowerCase();
  if (!q) return EMOJI.slice(0, max);
  const score = (e: Emoji) => {
    const words = e.names.split(' ');
    if (words[0] === q) return 0;
    if (words[0]!.startsWith(q)) return 1;
    if (words.some((w) => w.startsWith(q))) return 2;
    return e.names.includes(q) ? 3 : 9;
  };
  return EMOJI.map((e) => ({ e, s: score(e) }))
    .filter((x) => x.s < 9)
    .sort((a, b) => a.s - b.s)
    .slice(0, max)
    .map((x) => x.e);
}
