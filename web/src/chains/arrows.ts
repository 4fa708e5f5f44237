import { candidatesOf, CONTEXT_UNITS, continuesWord, isInsideWord } from '../lib/mention';

/** Arrows between agents, as the server finds them (tests/corpus/arrows.json). No state, no framework. */

/** Replaces matches of the patterns with characters that match nothing, so that offsets stay the same. */
const masked = (text: string, ...patterns: RegExp[]): string =>
  patterns.reduce((rest, pattern) => rest.replace(pattern, (found) => '\uE000'.repeat(found.length)), text);

const FENCES = /^ {0,3}(```|~~~)[\s\S]*?(?:^ {0,3}\1|$(?![\s\S]))/gm;
const INDENTED = /(?<=^|\n[ \t]*\n)(?:(?: {4}|\t)[^\n]*(?:\n|$))+/g;
/**
 * A code span, which ends in the same paragraph. Its length is limited because a search that finds no end is
 * repeated at each possible start.
 */
const CODE = /(?<![\\`])(`+)(?!`)(?:[^\n]|\n(?![ \t]*(?:\n|$))){1,2000}?(?<!`)\1(?!`)/g;
/** A line directly below a quote continues it. */
const QUOTES = /^ {0,3}>.*(?:\n.*\S.*)*/gm;
const URLS = /\bhttps?:\/\/\S+/g;
const ADDRESSES = /(?<=\])\([^)\n]{0,2000}\)/g;
const LINKS = /!?\[[^\]\n]{0,2000}\](?=\uE000)/g;
const MENTION = /[@＠]([a-z0-9][a-z0-9_-]*)/gi;

/** Handles of the agents of a chain, in order; empty if the text is not a chain. */
export function chainIn(text: string, isAgent: (handle: string) => boolean): string[] {
  const bare = masked(text, FENCES, INDENTED, CODE, QUOTES, ADDRESSES, URLS);
  const outside = masked(bare, LINKS);
  let first: string | null = null;
  const chain: string[] = [];
  for (const found of bare.matchAll(MENTION)) {
    const handle = candidatesOf(found[1]!.toLowerCase()).find(isAgent);
    const end = found.index + found[0].length;
    const context = bare.slice(Math.max(0, found.index - CONTEXT_UNITS), found.index);
    if (!handle || isInsideWord(context) || continuesWord(bare.slice(end, end + 2))) continue;
    const before = outside.slice(0, found.index).trimEnd();
    const follows = /\s(?:→|->)$/.test(before.slice(-3));
    if (first === null) {
      if (follows) return [];
      first = handle;
    } else if (follows) chain.push(handle);
  }
  return first !== null && chain.length ? [first, ...chain] : [];
}
