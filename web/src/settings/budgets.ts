import type { BudgetForm, Usage, UsageBudget } from '../api/admin-types';
import { count } from '../lib/numbers';
import { listed } from '../lib/text';

/** Names of people and agents. */
export interface Names {
  user(id: string): string;
  agent(id: string): string;
}

/** Calls that a budget covers: "The workspace", "Each person", "Ada". */
export function coveredBy(b: Pick<UsageBudget, 'scope' | 'subject_id'>, names: Names): string {
  if (b.scope === 'workspace') return 'The workspace';
  if (b.subject_id === null) return b.scope === 'person' ? 'Each person' : 'Each agent';
  return b.scope === 'person' ? names.user(b.subject_id) : names.agent(b.subject_id);
}

export const PERIODS: Record<UsageBudget['period'], string> = { day: 'Day', month: 'Month' };

/** "$50.00", "$0.0025". */
const dollars = (usd: number): string =>
  `$${usd.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 4 })}`;
/** An amount in the unit of the budget: "$12.50", "120,000 tokens". */
export const amountText = (b: UsageBudget, amount: number): string =>
  b.limit_usd === null ? `${count(amount)} ${amount === 1 ? 'token' : 'tokens'}` : dollars(amount);
export const limitOf = (b: UsageBudget): number => b.limit_usd ?? b.limit_tokens ?? 0;

export type BudgetState = 'ok' | 'warning' | 'used-up';
export function stateOf(b: UsageBudget): BudgetState {
  const limit = limitOf(b);
  if (b.spent >= limit) return 'used-up';
  return b.spent >= limit * b.warn_at ? 'warning' : 'ok';
}
export const STATES: Record<BudgetState, string> = {
  ok: '',
  warning: 'Almost used up',
  'used-up': 'Used up',
};

/** The budget without the fields that only the server sets. */
export const formOf = (b: UsageBudget): BudgetForm => ({
  scope: b.scope,
  subject_id: b.subject_id,
  period: b.period,
  limit_usd: b.limit_usd,
  limit_tokens: b.limit_tokens,
  warn_at: b.warn_at,
});

/** Form value that selects the covered calls: `person`, `person:user_…`. */
export const keyOf = (b: Pick<UsageBudget, 'scope' | 'subject_id'>): string =>
  b.subject_id === null ? b.scope : `${b.scope}:${b.subject_id}`;
/** Key that is unique within a list of budgets. */
export const placeOf = (b: Pick<UsageBudget, 'scope' | 'subject_id' | 'period' | 'limit_usd'>): string =>
  [keyOf(b), b.period, b.limit_usd === null ? 'tokens' : 'usd'].join(' ');
/** The list with a changed or new budget; one that was removed meanwhile is added again. */
export function withBudget(list: UsageBudget[], before: UsageBudget | null, form: BudgetForm): BudgetForm[] {
  const at = before ? list.findIndex((b) => placeOf(b) === placeOf(before)) : -1;
  const data = list.map(formOf);
  if (at < 0) return [...data, form];
  data[at] = form;
  return data;
}
export const without = (list: UsageBudget[], removed: UsageBudget): BudgetForm[] =>
  list.filter((b) => placeOf(b) !== placeOf(removed)).map(formOf);

export function scopeOf(key: string): Pick<BudgetForm, 'scope' | 'subject_id'> {
  const [scope, id] = key.split(':');
  return {
    scope: scope === 'person' || scope === 'agent' ? scope : 'workspace',
    subject_id: id ?? null,
  };
}

/** The built-in responder, which is not limited. */
const BUILT_IN = 'builtin';
/** Names models in use without a known price, which dollar limits do not cover; empty if all have one. */
export function unpricedText(budgets: UsageBudget[], models: Usage): string {
  if (!budgets.some((b) => b.limit_usd !== null)) return '';
  const names = models.data
    .filter(
      (r) =>
        r.key !== 'none' && r.key !== BUILT_IN && r.cost_usd === null && r.input_tokens + r.output_tokens > 0,
    )
    .map((r) => r.name);
  if (!names.length) return '';
  const [verb, it] = names.length === 1 ? ['has', 'it'] : ['have', 'them'];
  return `${listed(names)} ${verb} no known price: dollar limits do not cover ${it}.`;
}
