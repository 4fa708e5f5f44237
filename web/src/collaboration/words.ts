import type { Collaboration } from '../api/types';
import { plural } from '../lib/time';

export const AGENTS_MIN = 2;
export const AGENTS_MAX = 4;
export const TURNS_MIN = 2;
export const TURNS_MAX = 8;
export const GOAL_MAX = 4000;
/** Label of the button that opens the agents' draft. */
export const REVIEW = 'Draft ready. Review and post';

const LIST = new Intl.ListFormat('en-US');

/** Agents and state: `Coder and Reviewer · turn 3 of 8`. */
export function stateText(c: Collaboration, names: string[]): string {
  const who = LIST.format(names);
  switch (c.state) {
    case 'running':
      return `${who} · turn ${Math.max(1, c.turns)} of ${c.turns_max}`;
    case 'stopped':
      return `${who} · stopped after ${plural(c.turns, 'turn')}`;
    case 'failed':
      return `${who} · ended without a result`;
    default:
      return `${who} · ${plural(c.turns, 'turn')}`;
  }
}
