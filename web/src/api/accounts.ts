import { at, type Transport } from './http';
import type { components } from './schema';
import type { Account } from './types';

type S = components['schemas'];

/** API client for links in emails and forgotten passwords, `api.part(AccountsApi)`. */
export class AccountsApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  /** Sends a link that confirms the address of the signed-in person. */
  sendConfirmation(): Promise<void> {
    return this.#take(this.#http.POST('/v1/mail/confirmation'));
  }
  confirmAddress(token: string): Promise<void> {
    return this.#take(this.#http.POST('/v1/mail/confirm', { body: { token } }));
  }
  /** Sends a link that sets a new password, if an account has this address. */
  sendReset(email: string): Promise<void> {
    return this.#take(this.#http.POST('/v1/auth/reset', { body: { email } }));
  }
  resetPassword(body: S['NewPasswordForm']): Promise<void> {
    return this.#take(this.#http.POST('/v1/auth/reset/confirm', { body }));
  }
  /** Completes a sign-in with a second factor. */
  secondFactor(body: S['SecondFactorForm']): Promise<Account> {
    return this.#take(this.#http.POST('/v1/auth/second-factor', { body }));
  }
  /** Whether people can sign in with a passkey; false if the server cannot be reached. */
  async hasPasskeySignIn(): Promise<boolean> {
    const methods = await this.#take(this.#http.GET('/v1/auth/methods')).catch(() => null);
    return methods?.passkey === true;
  }
  /** Returns the challenge for a passkey. */
  passkeyOptions(): Promise<object> {
    return this.#take(this.#http.POST('/v1/auth/passkey/options'));
  }
  signInWithPasskey(credential: Record<string, unknown>): Promise<Account> {
    return this.#take(this.#http.POST('/v1/auth/passkey', { body: { credential } }));
  }
  /** Returns the options for the passkey of a new account. */
  newAccountOptions(body: S['NewAccountForm']): Promise<object> {
    return this.#take(this.#http.POST('/v1/auth/signup/passkey/options', { body }));
  }
  signUpWithPasskey(body: S['PasskeySignupForm']): Promise<S['PasskeyAccount']> {
    return this.#take(this.#http.POST('/v1/auth/signup/passkey', { body }));
  }
  openSignInLink(token: string): Promise<Account> {
    return this.#take(this.#http.POST('/v1/auth/sign-in-link', { body: { token } }));
  }
  /** Creates a link with which a member sets a new password. */
  createResetLink(member: string): Promise<S['ResetLink']> {
    return this.#take(this.#http.POST('/v1/members/{user_id}/reset-link', at({ user_id: member })));
  }
}
