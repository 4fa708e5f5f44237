import { expect, test } from 'vitest';
import { providerError } from './provider-errors';

test.each([
  ['provider_unreachable', null, 'Corp does not answer. Try again, or sign in another way.'],
  ['clock_skew', '-4', 'This server’s clock is 4 minutes behind Corp’s. Ask your admin to set it.'],
  ['clock_skew', '1', 'This server’s clock is 1 minute ahead of Corp’s. Ask your admin to set it.'],
  ['flow_expired', null, 'This sign-in took too long or was opened in another browser. Start again.'],
  ['refused', 'access_denied', 'Corp did not sign you in: access was denied.'],
  ['refused', 'no_id_token', 'Corp did not sign you in: its answer is not valid.'],
  ['refused', 'wrong_subject', 'Corp did not sign you in: its answer is about someone else.'],
  ['refused', 'consent_required', 'Corp did not sign you in: consent_required.'],
  [
    'misconfigured',
    'invalid_client',
    'Corp rejected this server (invalid_client). Ask your admin to enter the client secret again.',
  ],
  ['email_not_verified', null, 'Corp has not confirmed your email address.'],
  [
    'address_in_use',
    'ada@example.org',
    'ada@example.org belongs to another account. Sign in to it and connect Corp in Settings › Sign-in, or ask an admin.',
  ],
  [
    'address_in_use',
    null,
    'Your address belongs to another account. Sign in to it and connect Corp in Settings › Sign-in, or ask an admin.',
  ],
  ['not_invited', null, 'You have no invite to this server. Ask an admin of your workspace.'],
])('%s %s has a text', (code, detail, text) => {
  expect(providerError(code, 'Corp', detail)).toBe(text);
});
