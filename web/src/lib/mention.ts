/* Mentions as `src/chat/mentions.rs` finds them; the cases are in tests/corpus/mentions. */

/** `@`, or the full-width sign of East Asian input methods, with what can be a handle. */
export const SIGNED = /^[@＠]([a-z0-9][a-z0-9_-]*)/i;
/** Maximum length of a handle. */
const HANDLE_MAX = 64;
/** Units before a mention that decide about it. */
export const CONTEXT_UNITS = 2 * HANDLE_MAX;

/** Possible handles, longest first: hyphens at the end can be punctuation, and so can what follows two of them. */
export function candidatesOf(name: string): string[] {
  const ends = new Set<number>();
  for (let end = name.length; end >= name.replace(/-+$/, '').length; end--) ends.add(end);
  for (const dashes of name.matchAll(/--/g)) ends.add(dashes.index);
  return [...ends]
    .filter((end) => end <= HANDLE_MAX)
    .sort((a, b) => b - a)
    .map((end) => name.slice(0, end));
}

/**
 * Checks whether the text after a handle makes it a package name, an address, an assignment, a port, or a longer
 * word.
 */
export const continuesWord = (rest: string): boolean =>
  /^(?:\/(?![@＠])|[.@＠][A-Za-z0-9]|=|:[0-9])/.test(rest) ||
  /^(?=[\u00aa-\u052f\u1e00-\u1fff])[\p{L}\p{N}\u0300-\u036f]/u.test(rest);

/** Checks whether the sign continues a path. `@coder/@vibe` mentions both. */
function isInPath(before: string): boolean {
  let rest = before;
  while (rest.endsWith('/')) {
    const other = /[@＠][a-z0-9][a-z0-9_-]*\/$/i.exec(rest);
    if (!other) return /[\p{L}\p{N}._]\/$/u.test(rest);
    rest = rest.slice(0, other.index);
    if (/[A-Za-z0-9_\\]$/.test(rest)) return true;
  }
  return false;
}

/** Checks whether the sign continues a word, an address, or a path. */
export const isInsideWord = (before: string): boolean =>
  /(?:\w|\\|:\/\/)$/.test(before) || isInPath(before.slice(-CONTEXT_UNITS));
