export type Side = 'mine' | 'theirs';
/** A field that differs between the two versions, and who changed it since their common version. */
export interface Clash<K extends string = string> {
  field: K;
  before: unknown;
  mine: unknown;
  theirs: unknown;
  by: Side | 'both';
}

const ordered = (_: string, v: unknown): unknown =>
  v && typeof v === 'object' && !Array.isArray(v)
    ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1)))
    : v;
export const same = (a: unknown, b: unknown): boolean =>
  JSON.stringify(a, ordered) === JSON.stringify(b, ordered);

/** The fields of `after` that differ from `before`. */
export const changes = <F extends object>(before: F, after: F): Partial<F> =>
  Object.fromEntries(Object.entries(after).filter(([k, v]) => !same(v, before[k as keyof F]))) as Partial<F>;

/** Compares my fields with a version saved in the meantime; both started from `before`. */
export const clashesIn = <K extends string>(
  fields: readonly K[],
  before: Record<K, unknown>,
  mine: Record<K, unknown>,
  theirs: Record<K, unknown>,
): Clash<K>[] =>
  fields
    .filter((k) => !same(mine[k], theirs[k]))
    .map((field) => ({
      field,
      before: before[field],
      mine: mine[field],
      theirs: theirs[field],
      by: same(before[field], mine[field]) ? 'theirs' : same(before[field], theirs[field]) ? 'mine' : 'both',
    }));

/** Default choice per field: the side that changed it. If both did, none: the user decides. */
export const firstChoice = <K extends string>(list: Clash<K>[]): Map<K, Side> =>
  new Map(list.flatMap((c): [K, Side][] => (c.by === 'both' ? [] : [[c.field, c.by]])));

/** The newer version with my values for the fields where I chose mine; null while a choice is open. */
export function merge<F extends object>(
  mine: F,
  theirs: F,
  list: Clash<keyof F & string>[],
  choice: ReadonlyMap<keyof F & string, Side>,
): F | null {
  if (list.some((c) => !choice.has(c.field))) return null;
  const own = list.filter((c) => choice.get(c.field) === 'mine').map((c) => [c.field, mine[c.field]]);
  return { ...theirs, ...(Object.fromEntries(own) as Partial<F>) };
}
