import type { AgentFields } from '../api/agent-types';
import { clashesIn, type Clash } from '../lib/merge';
import { FIELDS, tidy, type FieldKey } from './agents-fields';

/** Compares my fields with a version saved in the meantime; both started from `before`. */
export const clashes = (before: AgentFields, mine: AgentFields, theirs: AgentFields): Clash<FieldKey>[] =>
  clashesIn(FIELDS, tidy(before), tidy(mine), tidy(theirs));
