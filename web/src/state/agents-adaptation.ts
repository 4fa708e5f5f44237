import type { AgentSentiment, Metaprompt, MetapromptTrigger } from '../api/agent-types';

export const METAPROMPTS_MAX = 10;

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

type TriggerType = MetapromptTrigger['type'];
export const TRIGGERS: Record<TriggerType, string> = {
  turn_interval: 'Every few replies',
  event_based: 'After an event',
  manual: 'On request, over the API',
};
export const EVENTS: Record<NonNullable<MetapromptTrigger['event']>, string> = {
  user_frustrated: 'The person is frustrated',
  user_confused: 'The person is confused',
  user_satisfied: 'The person is satisfied',
  low_engagement: 'The person loses interest',
  error_threshold_exceeded: 'Replies failed repeatedly',
};
/** A complete trigger of this type. */
export function triggerOf(type: TriggerType): MetapromptTrigger {
  if (type === 'turn_interval') return { type, interval_turns: 6 };
  return type === 'event_based' ? { type, event: 'user_frustrated' } : { type };
}
/** A blank metaprompt whose ID differs from the others. */
export function newMetaprompt(others: readonly Metaprompt[]): Metaprompt {
  let n = 1;
  while (others.some((m) => m.id === `metaprompt-${n}`)) n++;
  return { id: `metaprompt-${n}`, description: '', template: '', trigger: triggerOf('turn_interval') };
}
