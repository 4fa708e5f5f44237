import type { AgentSentiment } from '../api/agent-types';

type SentimentProfile = NonNullable<AgentSentiment['profile']>;
/** Choices of the "Profile" field. `inherit`: not set. `custom`: turned on without a profile. */
export type ProfileChoice = 'inherit' | 'custom' | SentimentProfile;

/** Names and effects of the profiles. */
export const PROFILES: Record<SentimentProfile, { name: string; hint: string }> = {
  off: { name: 'Off', hint: '' },
  basic: { name: 'Basic', hint: 'A word list finds frustration and confusion.' },
  standard: {
    name: 'Standard',
    hint: 'A word list finds frustration, confusion, satisfaction, loss of interest, and repeated errors.',
  },
  advanced: { name: 'Advanced', hint: 'Like Standard, but a model scores each message.' },
  tutor: { name: 'Tutor', hint: 'A word list finds frustration, confusion, and satisfaction sooner.' },
};

/** Checks whether messages are scored. */
const scores = (s: AgentSentiment): boolean => s.enabled ?? (!!s.profile && s.profile !== 'off');

export function choiceOf(s: AgentSentiment | null): ProfileChoice {
  if (!s) return 'inherit';
  if (!scores(s)) return 'off';
  return s.profile && s.profile !== 'off' ? s.profile : 'custom';
}
/** The settings with another profile; the thresholds stay. */
export function withChoice(s: AgentSentiment | null, choice: ProfileChoice): AgentSentiment | null {
  if (choice === 'inherit') return null;
  return choice === 'custom' ? s : { ...s, enabled: choice !== 'off', profile: choice };
}
/** The threshold that applies if the field is empty: the server's default for the profile. */
export const thresholdOf = (choice: ProfileChoice): number => (choice === 'tutor' ? 0.2 : 0.3);
