import { expect, test } from 'vitest';
import type { Usage, UsageBudget } from '../api/admin-types';
import {
  amountText,
  coveredBy,
  formOf,
  keyOf,
  scopeOf,
  stateOf,
  unpricedText,
  withBudget,
  without,
} from './budgets';

const budget = (x: Partial<UsageBudget> = {}): UsageBudget => ({
  scope: 'workspace',
  subject_id: null,
  period: 'month',
  limit_usd: 50,
  limit_tokens: null,
  warn_at: 0.8,
  spent: 0,
  reserved: 0,
  top_subject_id: null,
  ...x,
});
const names = { user: (id: string) => `user ${id}`, agent: (id: string) => `agent ${id}` };

test('a budget names the calls that it covers', () => {
  const covered = (x: Partial<UsageBudget>) => coveredBy(budget(x), names);
  expect(covered({})).toBe('The workspace');
  expect(covered({ scope: 'person' })).toBe('Each person');
  expect(covered({ scope: 'agent' })).toBe('Each agent');
  expect(covered({ scope: 'person', subject_id: 'user_a' })).toBe('user user_a');
  expect(covered({ scope: 'agent', subject_id: 'agent_v' })).toBe('agent agent_v');
});
test('amounts are in the unit of the limit', () => {
  expect(amountText(budget(), 50)).toBe('$50.00');
  expect(amountText(budget(), 0.0025)).toBe('$0.0025');
  const tokens = budget({ limit_usd: null, limit_tokens: 1_000_000 });
  expect(amountText(tokens, 120_000)).toBe('120,000 tokens');
  expect(amountText(tokens, 1)).toBe('1 token');
});
test('a budget warns before it is used up', () => {
  expect([39.9, 40, 49.9, 50, 60].map((spent) => stateOf(budget({ spent })))).toEqual([
    'ok',
    'warning',
    'warning',
    'used-up',
    'used-up',
  ]);
});
test('a budget that is sent back has no fields that only the server sets', () => {
  expect(Object.keys(formOf(budget()))).not.toContain('spent');
  for (const x of [{}, { scope: 'person' as const }, { scope: 'agent' as const, subject_id: 'agent_v' }]) {
    const { scope, subject_id } = budget(x);
    expect(scopeOf(keyOf(budget(x)))).toEqual({ scope, subject_id });
  }
});
test('a change applies to its budget, wherever another admin moved it', () => {
  const [ours, theirs] = [budget(), budget({ period: 'day' })];
  const changed = formOf({ ...ours, limit_usd: 9 });
  expect(withBudget([theirs, ours], ours, changed)).toEqual([formOf(theirs), changed]);
  expect(withBudget([theirs], ours, changed)).toEqual([formOf(theirs), changed]);
  expect(withBudget([theirs], null, changed)).toEqual([formOf(theirs), changed]);
  expect(without([{ ...theirs }, ours], theirs)).toEqual([formOf(ours)]);
});
test('models without a price are named if there are dollar limits', () => {
  const row = (name: string, cost_usd: number | null) => ({
    key: name,
    name,
    tasks: 1,
    failed: 0,
    input_tokens: 5,
    output_tokens: 5,
    cost_usd,
  });
  const usage = (...data: Usage['data']): Usage => ({
    object: 'list',
    from: '2026-11',
    to: '2026-11',
    group_by: 'model',
    data,
    total: row('', null),
    storage: null,
  });
  expect(unpricedText([budget()], usage(row('tiny', null), row('large', 1)))).toBe(
    'tiny has no known price: dollar limits do not cover it.',
  );
  expect(unpricedText([budget()], usage(row('tiny', null), row('small', null)))).toBe(
    'tiny and small have no known price: dollar limits do not cover them.',
  );
  expect(unpricedText([budget()], usage(row('large', 1)))).toBe('');
  const tokens = budget({ limit_usd: null, limit_tokens: 9 });
  expect(unpricedText([tokens], usage(row('tiny', null)))).toBe('');
});
