import type { AgentPrompting } from '../api/agent-types';

/** Choices of the field "Style" that are not IDs of presets. */
export const STYLES = {
  /** Cannot be the ID of a preset, because of its characters. */
  base: '(base)',
  default: '',
  rules: 'auto',
  none: 'none',
} as const;

/** The style of an agent: one of `STYLES`, or the ID of a preset. */
export const styleOf = (prompting: AgentPrompting | null, hasBase: boolean): string =>
  !prompting && hasBase ? STYLES.base : (prompting?.profile ?? STYLES.default);

/**
 * The settings with another style. An agent inherits its base's settings as a whole, so choosing the base's
 * style discards the agent's own settings.
 */
export function withStyle(
  prompting: AgentPrompting | null,
  style: string,
  hasBase: boolean,
): AgentPrompting | null {
  if (style === STYLES.base) return null;
  return settled({ profile: style || null, compaction: prompting?.compaction ?? null }, hasBase);
}
/** The settings with another strategy for long conversations; null follows the workspace. */
export function withCompaction(
  prompting: AgentPrompting | null,
  compaction: AgentPrompting['compaction'],
  hasBase: boolean,
): AgentPrompting | null {
  return settled({ profile: prompting?.profile ?? null, compaction }, hasBase && prompting !== null);
}
/** Without a base, default settings are the same as none. */
const settled = (next: AgentPrompting, hasBase: boolean): AgentPrompting | null =>
  hasBase || next.profile || next.compaction ? next : null;
