import type { IdentityProvider } from '../api/identity';

/** Result of a try, as a sentence about the person who signed in. */
export function outcomeOf({ name, last_try }: IdentityProvider): string {
  const { account, email } = (last_try ?? {}) as { account?: string; email?: string };
  switch (account) {
    case 'known':
      return `${email} signs in to their account.`;
    case 'linked':
      return `${email} would be connected to the account with this address.`;
    case 'password_needed':
      return `${email} would enter the password of their account once, because its address is not confirmed.`;
    case 'address_in_use':
      return `${email} belongs to an account that has to connect ${name} itself, in Settings › Sign-in and keys.`;
    case 'new':
      return `${email} would get an account, with an invite or where everyone can join.`;
    case 'not_invited':
      return `The address is not in a domain of ${name}.`;
    case 'email_not_verified':
      return `${name} has not confirmed the email address.`;
    default:
      return '';
  }
}
