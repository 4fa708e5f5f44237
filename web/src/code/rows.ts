import type { PatchFile, PatchLine } from './patch';

/** Rows of the view of changes. A line that is both before and after the change is in both fields. */
export type Row =
  | { kind: 'file'; key: string; file: PatchFile }
  | { kind: 'text'; key: string; text: string }
  | LineRow
  | { kind: 'comment'; key: string; anchor: Anchor };
export interface LineRow {
  kind: 'line';
  key: string;
  path: string;
  old: PatchLine | null;
  now: PatchLine | null;
}
/** A line that a comment is about: on the side `old`, a removed one. */
export interface Anchor {
  path: string;
  side: 'old' | 'new';
  line: number;
}
export type Layout = 'unified' | 'split';

export const anchorKey = ({ path, side, line }: Anchor): string => `${side} ${line} ${path}`;
/** The line of a side that people can comment on: those that stay are on the new side. */
export function anchorOf(row: LineRow, side: Anchor['side']): Anchor | null {
  const { path, old, now } = row;
  if (side === 'new') return now ? { path, side, line: now.now } : null;
  return old && old.sign === '-' ? { path, side, line: old.old } : null;
}

/** Rows of a file, which is the `n`th. In two columns, the lines of a change are beside those that they replace. */
export function rowsOf(file: PatchFile, n: number, layout: Layout): Row[] {
  const rows: Row[] = [{ kind: 'file', key: `${n}`, file }];
  for (const text of file.notes) rows.push({ kind: 'text', key: `${n}.${rows.length}`, text });
  const add = (old: PatchLine | null, now: PatchLine | null) =>
    rows.push({ kind: 'line', key: `${n}.${rows.length}`, path: file.path, old, now });
  for (const hunk of file.hunks) {
    rows.push({ kind: 'text', key: `${n}.${rows.length}`, text: hunk.header });
    let removed: PatchLine[] = [];
    let added: PatchLine[] = [];
    const flush = () => {
      for (let at = 0; at < Math.max(removed.length, added.length); at++)
        add(removed[at] ?? null, added[at] ?? null);
      [removed, added] = [[], []];
    };
    for (const line of hunk.lines) {
      if (line.sign === ' ') {
        flush();
        add(line, line);
      } else if (layout === 'unified') add(line.sign === '-' ? line : null, line.sign === '+' ? line : null);
      else if (line.sign === '+') added.push(line);
      else {
        if (added.length) flush();
        removed.push(line);
      }
    }
    flush();
  }
  return rows;
}

/**
 * The rows with those of comments, each below its line. Comments on lines that are not there are left out, and a line that is there
 * twice, in a patch that git did not make, has its comment once.
 */
export function withComments(rows: Row[], anchors: readonly Anchor[]): Row[] {
  if (!anchors.length) return rows;
  const paths = new Set(anchors.map((a) => a.path));
  const keys = new Set(anchors.map(anchorKey));
  const all: Row[] = [];
  for (const row of rows) {
    all.push(row);
    if (row.kind !== 'line' || !paths.has(row.path)) continue;
    for (const side of ['old', 'new'] as const) {
      const anchor = anchorOf(row, side);
      if (anchor && keys.delete(anchorKey(anchor)))
        all.push({ kind: 'comment', key: anchorKey(anchor), anchor });
    }
  }
  return all;
}
