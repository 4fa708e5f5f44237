import type { Transport } from './http';
import type { Account } from './types';

/** API client for the suggestion setting, `api.part(SuggestionsApi)`. */
export class SuggestionsApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  set(suggestions: boolean): Promise<Account> {
    return this.#take(this.#http.PATCH('/v1/auth/me', { body: { suggestions } }));
  }
}
