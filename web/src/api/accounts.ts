import { at, type Transport } from './http';
import type { components } from './schema';

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
  /** Creates a link with which a member sets a new password. */
  createResetLink(member: string): Promise<S['ResetLink']> {
    return this.#take(this.#http.POST('/v1/members/{user_id}/reset-link', at({ user_id: member })));
  }
}
