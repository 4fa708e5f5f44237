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

/** Words that ask for an order of replies, in the languages of the seeds. */
const THEN = 'then|after (?:that|this)|afterwards?|dann|danach|anschließend|puis|ensuite|après|luego|después';
const REVIEW = 'review(?:s|ing)?|prüfe|prüft|überprüfe|überprüft|relis|relit|relire|revisa|revise|revisar';
const ORDER = new RegExp(`(?<![\\p{L}\\p{N}_])(?:${THEN}|${REVIEW})(?![\\p{L}\\p{N}_])`, 'iu');
/** End of the text before an arrow that the arrow says, too. */
const BEFORE_ARROW = new RegExp(
  `(?:[,;.:]?\\s{1,3}(?:and|und|et|y))?(?:[,;.:]?\\s{1,3}(?:${THEN}))?[,;.:]?$`,
  'iu',
);

interface Named {
  handle: string;
  at: number;
  followsArrow: boolean;
}

const withoutCode = (text: string): string => masked(text, FENCES, INDENTED, CODE, QUOTES, ADDRESSES, URLS);

/** Agents that a text without code names, in order. */
function namedIn(bare: string, isAgent: (handle: string) => boolean): Named[] {
  const outside = masked(bare, LINKS);
  const named: Named[] = [];
  for (const found of bare.matchAll(MENTION)) {
    const handle = candidatesOf(found[1]!.toLowerCase()).find(isAgent);
    const end = found.index + found[0].length;
    const context = bare.slice(Math.max(0, found.index - CONTEXT_UNITS), found.index);
    if (!handle || isInsideWord(context) || continuesWord(bare.slice(end, end + 2))) continue;
    const before = outside.slice(0, found.index).trimEnd();
    named.push({ handle, at: found.index, followsArrow: /\s(?:→|->)$/.test(before.slice(-3)) });
  }
  return named;
}

/** Handles of the agents of a chain, in order; empty if the text is not a chain. */
export function chainIn(text: string, isAgent: (handle: string) => boolean): string[] {
  const [first, ...rest] = namedIn(withoutCode(text), isAgent);
  const links = rest.filter((agent) => agent.followsArrow);
  return first && !first.followsArrow && links.length ? [first, ...links].map((agent) => agent.handle) : [];
}

/**
 * Two agents that would start at once although the words ask for an order, and the text as a chain; null for other
 * texts.
 */
export function unorderedIn(
  text: string,
  isAgent: (handle: string) => boolean,
): { handles: [string, string]; chain: string } | null {
  const bare = withoutCode(text);
  const named = namedIn(bare, isAgent);
  const [first] = named;
  const second = named.find((agent) => agent.handle !== first?.handle);
  if (!first || !second || new Set(named.map((agent) => agent.handle)).size > 2) return null;
  if (named.some((agent) => agent.followsArrow) || !ORDER.test(bare.replace(MENTION, '@'))) return null;
  const before = text.slice(0, second.at).trimEnd().replace(BEFORE_ARROW, '');
  return { handles: [first.handle, second.handle], chain: `${before} → ${text.slice(second.at)}` };
}
