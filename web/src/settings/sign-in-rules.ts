import type { SecondFactors } from '../api/factors';
import { ApiError, errorMessage } from '../api/problem';
import type { components } from '../api/schema';
import { count } from '../lib/numbers';
import { plural } from '../lib/time';

type S = components['schemas'];
/** Demands of a workspace on sessions. */
export type SignInRules = S['SignInDemands'];
export type SignInRulesPatch = S['SignInDemandsPatch'];
export type SecondFactorCounts = S['SecondFactorCounts'];

const MINUTE_S = 60;
const HOUR_S = 60 * MINUTE_S;
const DAY_S = 24 * HOUR_S;
/** Maximum number of days until a second factor is required. */
const NOTICE_DAYS = 30;
/** Times without use after which people sign in again; the last one is the default. */
export const IDLE_CHOICES = [15 * MINUTE_S, HOUR_S, 8 * HOUR_S, DAY_S, 7 * DAY_S, 30 * DAY_S];
/** Ages at which people sign in again; the last one is the default. */
export const AGE_CHOICES = [HOUR_S, 8 * HOUR_S, DAY_S, 7 * DAY_S, 30 * DAY_S, 180 * DAY_S];

/** The choices, with the current value if it is not one of them. */
export const choicesWith = (choices: number[], current: number): number[] =>
  choices.includes(current) ? choices : [...choices, current].sort((a, b) => a - b);

/** "15 minutes", "8 hours", "30 days". */
export function durationText(seconds: number): string {
  if (seconds % DAY_S === 0) return plural(seconds / DAY_S, 'day');
  if (seconds % HOUR_S === 0) return plural(seconds / HOUR_S, 'hour');
  return plural(Math.round(seconds / MINUTE_S), 'minute');
}
/** Last day from which a second factor can be required. The server counts days in UTC. */
export const latestDay = (now = new Date()): string =>
  new Date(now.getTime() + NOTICE_DAYS * DAY_S * 1000).toISOString().slice(0, 10);

/** "3 of 40 people have no second factor yet"; null if everyone has one. */
export function missingText({ people, without_factor: without }: SecondFactorCounts): string | null {
  if (!without) return null;
  return `${count(without)} of ${count(people)} people ${without === 1 ? 'has' : 'have'} no second factor yet`;
}

/** The fields that differ. */
export function changesOf(before: SignInRules, wanted: SignInRules): SignInRulesPatch {
  const keys = Object.keys(wanted) as (keyof SignInRules)[];
  const isChanged = (key: keyof SignInRules) => JSON.stringify(before[key]) !== JSON.stringify(wanted[key]);
  return Object.fromEntries(keys.filter(isChanged).map((key) => [key, wanted[key]])) as SignInRulesPatch;
}

/** Error of a change as text. If the admin would be locked out, it names the way to meet the rules. */
export function refusalText(
  e: unknown,
  of: { wanted: SignInRules; providers: string[]; factors: SecondFactors },
): string {
  if (!(e instanceof ApiError && e.code === 'would_lock_you_out')) return errorMessage(e);
  const { wanted, providers, factors } = of;
  const isRequired = wanted.second_factor === 'required';
  const hasFactor = factors.app || factors.passkeys > 0;
  const first = wanted.providers
    ? `Sign in with ${providers.join(' or ')}`
    : isRequired && !hasFactor
      ? 'Set up a second factor in Settings › Sign-in and keys'
      : isRequired
        ? 'Sign in again with your second factor'
        : 'Sign in again';
  return `These rules would lock you out, so nothing has changed. ${first} first.`;
}

/** Notice of a second factor that will be required; blank if there is none. */
export function upcomingText(rules: SignInRules, name: string, now = new Date()): string {
  const { second_factor, from } = rules;
  if (second_factor !== 'required' || !from || from <= now.toISOString().slice(0, 10)) return '';
  const day = new Intl.DateTimeFormat('en-US', { month: 'long', day: 'numeric', timeZone: 'UTC' });
  return `${name} will require a second factor from ${day.format(new Date(from))}. Set it up.`;
}
