import type { Quote } from './address';

/** Piece of a text; `hit` is true if it is marked. */
export interface Piece {
  text: string;
  hit: boolean;
}

const literal = (words: string) => words.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');

/** Occurrences of words in a text, regardless of case. */
export function rangesOf(text: string, words: string): Quote[] {
  if (!words) return [];
  const all = [...text.matchAll(new RegExp(literal(words), 'giu'))];
  return all.map((match) => ({ from: match.index, to: match.index + match[0].length }));
}

/** Splits a text at ranges, which are in order. */
export function piecesOf(text: string, ranges: readonly Quote[]): Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  for (const { from, to } of ranges) {
    pieces.push({ text: text.slice(at, from), hit: false }, { text: text.slice(from, to), hit: true });
    at = to;
  }
  pieces.push({ text: text.slice(at), hit: false });
  return pieces.filter((piece) => piece.text);
}
