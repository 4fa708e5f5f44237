/** Reasons of our own for which an answer of a provider is refused. */
const REASONS: Record<string, string> = {
  access_denied: 'access was denied',
  login_required: 'you are not signed in there',
  invalid_grant: 'the sign-in was used already',
  no_code: 'its answer is not valid',
  no_id_token: 'its answer is not valid',
  invalid_token: 'its answer is not valid',
  invalid_subject: 'its answer is not valid',
  wrong_subject: 'its answer is about someone else',
  invalid_signature: 'its signature is wrong',
  algorithm_not_permitted: 'its signature is wrong',
  wrong_issuer: 'the answer came from someone else',
  wrong_audience: 'its answer is for another server',
  wrong_nonce: 'its answer is for another sign-in',
  another_person: 'you signed in as another person',
  old_sign_in: 'you did not sign in again',
};

/** Text for a sign-in with a provider that failed: the code and the detail in the address of the page. */
export function providerError(code: string, name: string, detail: string | null): string {
  switch (code) {
    case 'provider_unreachable':
      return `${name} does not answer. Try again, or sign in another way.`;
    case 'clock_skew': {
      const minutes = Number(detail);
      const amount = Math.abs(minutes) === 1 ? '1 minute' : `${Math.abs(minutes)} minutes`;
      return `This server’s clock is ${amount} ${minutes < 0 ? 'behind' : 'ahead of'} ${name}’s. Ask your admin to set it.`;
    }
    case 'flow_expired':
      return 'This sign-in took too long or was opened in another browser. Start again.';
    case 'refused':
      return `${name} did not sign you in: ${REASONS[detail ?? ''] ?? detail ?? 'no reason'}.`;
    case 'misconfigured':
      return `${name} rejected this server (${detail ?? 'no reason'}). Ask your admin to enter the client secret again.`;
    case 'email_not_verified':
      return `${name} has not confirmed your email address.`;
    case 'address_in_use':
      return `${detail ?? 'Your address'} belongs to another account. Sign in to it and connect ${name} in Settings › Sign-in, or ask an admin.`;
    case 'not_invited':
      return 'You have no invite to this server. Ask an admin of your workspace.';
    case 'confirmation_required':
    case 'not_signed_in':
      return 'Your session has changed. Start again.';
    default:
      return 'The sign-in failed. Start again.';
  }
}
