import type { AgentFields } from '../api/agent-types';
import { FIELDS, same, tidy, type FieldKey } from './agents-fields';

export type Side = 'mine' | 'theirs';
/** A field that differs between the two versions, and who changed it since their common version. */
export interface Clash {
  field: FieldKey;
  before: unknown;
  mine: unknown;
  theirs: unknown;
  by: Side | 'both';
}

/** Compares my fields with a version saved in the meantime; both started from `before`. */
export function clashes(before: AgentFields, mine: AgentFields, theirs: AgentFields): Clash[] {
  const [a, m, t] = [tidy(before), tidy(mine), tidy(theirs)];
  return FIELDS.filter((k) => !same(m[k], t[k])).map((field) => ({
    field,
    before: a[field],
    mine: m[field],
    theirs: t[field],
    by: same(a[field], m[field]) ? 'theirs' : same(a[field], t[field]) ? 'mine' : 'both',
  }));
}

/** Default choice per field: the side that changed it. If both did, none: the user decides. */
export const firstChoice = (list: Clash[]): Map<FieldKey, Side> =>
  new Map(list.flatMap((c) => (c.by === 'both' ? [] : [[c.field, c.by]])));

/** The newer version with my values for the fields where I chose mine; null while a choice is open. */
export function merge(
  mine: AgentFields,
  theirs: AgentFields,
  list: Clash[],
  choice: ReadonlyMap<FieldKey, Side>,
): AgentFields | null {
  if (list.some((c) => !choice.has(c.field))) return null;
  const own = list.filter((c) => choice.get(c.field) === 'mine').map((c) => [c.field, mine[c.field]]);
  return { ...theirs, ...(Object.fromEntries(own) as Partial<AgentFields>) };
}
