import { expect, test } from 'vitest';
import type { IdentityProvider } from '../api/identity';
import { outcomeOf } from './last-try';

const tried = (account: string, email: string | null) =>
  outcomeOf({ name: 'Corp', last_try: { account, email } } as unknown as IdentityProvider);

test('each result of a try is a sentence', () => {
  const outcomes = ['known', 'linked', 'password_needed', 'address_in_use', 'new'];
  for (const account of outcomes)
    expect(tried(account, 'ada@example.org')).toMatch(/^ada@example\.org .+\.$/);
  expect(tried('not_invited', null)).toBe('The address is not in a domain of Corp.');
  expect(tried('email_not_verified', null)).toBe('Corp has not confirmed the email address.');
  expect(outcomeOf({ name: 'Corp', last_try: null } as unknown as IdentityProvider)).toBe('');
});
