/** Part of a hit's text; `hit` is true if it matches the query. */
export interface Piece {
  text: string;
  hit: boolean;
}
const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
const unescape = (s: string) =>
  s.replace(/&(?:#(x[\da-f]{1,6}|\d{1,7})|(amp|lt|gt|quot|apos));/gi, (whole, code: string, name: string) => {
    if (name) return ENTITIES[name.toLowerCase()]!;
    const n = code[0]!.toLowerCase() === 'x' ? parseInt(code.slice(1), 16) : Number(code);
    return n <= 0x10ffff ? String.fromCodePoint(n) : whole;
  });

/** Splits the server's escaped text with `<mark>` into plain-text parts: nothing in it is interpreted as HTML. */
export function piecesOf(highlight: string): Piece[] {
  const pieces: Piece[] = [];
  let hit = false;
  for (const part of highlight.split(/(<\/?mark>)/)) {
    if (part === '<mark>' || part === '</mark>') hit = part === '<mark>';
    else if (part) pieces.push({ text: unescape(part), hit });
  }
  return pieces;
}
