import type { Resolution, ResolutionAction, ResolutionPoint } from '../api/types';
import { FIELD_LABELS, LISTS, type FieldName } from './resolution';

export interface Change {
  kind: 'added' | 'removed' | 'changed';
  before: string | null;
  after: string | null;
  /** Other differences, as text: "Owner: Bo, was Ada". */
  notes: string[];
}
export interface FieldDiff {
  name: FieldName;
  title: string;
  changes: Change[];
  /** Number of unchanged lines. */
  kept: number;
}
export type Names = (user: string | null, name: string | null) => string;

type Line = ResolutionPoint & Partial<ResolutionAction>;
const words = (s: string) => new Set(s.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);

/** Similarity of two lines from 0 to 1: shared words divided by all words. */
function likeness(a: string, b: string): number {
  const [x, y] = [words(a), words(b)];
  const shared = [...x].filter((w) => y.has(w)).length;
  return shared / (x.size + y.size - shared || 1);
}
/** Minimum similarity of two versions of the same line. */
const ALIKE_MIN = 0.4;

function notes(a: Line, b: Line, name: Names): string[] {
  const list: string[] = [];
  const [was, is] = [
    name(a.owner_id ?? null, a.owner_name ?? null),
    name(b.owner_id ?? null, b.owner_name ?? null),
  ];
  if (was !== is) list.push(`Owner: ${is}, was ${was}`);
  if ((a.due ?? null) !== (b.due ?? null)) list.push(`Due: ${b.due ?? 'no date'}, was ${a.due ?? 'no date'}`);
  return list;
}

/** Pairs the lines of two versions by ID, then by equal text, then by similarity. A changed order is not a change. */
function lines(a: readonly Line[], b: readonly Line[], name: Names): { changes: Change[]; kept: number } {
  const left = [...a];
  const matches = new Map<Line, Line>();
  const pair = (fits: (x: Line, y: Line) => boolean) => {
    for (const y of b) {
      if (matches.has(y)) continue;
      const at = left.findIndex((x) => fits(x, y));
      if (at >= 0) matches.set(y, left.splice(at, 1)[0]!);
    }
  };
  pair((x, y) => x.id !== undefined && x.id === y.id);
  pair((x, y) => x.text === y.text);
  for (const y of b) {
    if (matches.has(y)) continue;
    const [best] = left
      .map((x) => ({ x, score: likeness(x.text, y.text) }))
      .sort((p, q) => q.score - p.score);
    if (!best || best.score < ALIKE_MIN) continue;
    matches.set(y, best.x);
    left.splice(left.indexOf(best.x), 1);
  }
  const changes: Change[] = [];
  let kept = 0;
  for (const y of b) {
    const x = matches.get(y);
    if (!x) {
      changes.push({ kind: 'added', before: null, after: y.text, notes: [] });
      continue;
    }
    const also = notes(x, y, name);
    if (x.text === y.text && !also.length) kept++;
    else changes.push({ kind: 'changed', before: x.text, after: y.text, notes: also });
  }
  for (const x of left) changes.push({ kind: 'removed', before: x.text, after: null, notes: [] });
  return { changes, kept };
}

function text(before: string, after: string): { changes: Change[]; kept: number } {
  if (before === after) return { changes: [], kept: after ? 1 : 0 };
  const kind = !before ? 'added' : !after ? 'removed' : 'changed';
  return { changes: [{ kind, before: before || null, after: after || null, notes: [] }], kept: 0 };
}

/** Changes from version `a` to version `b`, field by field; unchanged fields are left out. */
export function diff(a: Resolution, b: Resolution, name: Names): FieldDiff[] {
  const of = (field: FieldName, d: { changes: Change[]; kept: number }): FieldDiff => ({
    name: field,
    title: FIELD_LABELS[field],
    ...d,
  });
  return [
    of('headline', text(a.headline, b.headline)),
    of('conclusion', text(a.conclusion, b.conclusion)),
    ...LISTS.map((l) => of(l.name, lines(a[l.name], b[l.name], name))),
  ].filter((d) => d.changes.length);
}
