import type { Transport } from './http';
import type { Account } from './types';

/** API client for the first steps, `api.part(ChecklistApi)`. */
export class ChecklistApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  /** Hides the steps, on all devices and in all workspaces of the user. */
  hide(): Promise<Account> {
    return this.#take(this.#http.PATCH('/v1/auth/me', { body: { checklist: false } }));
  }
}
