import type { Transport } from './http';
import type { Account } from './types';

/** API client for the user's own picture, `api.part(OwnPictureApi)`. */
export class OwnPictureApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  /** Makes an upload of the user their picture. */
  set(file_id: string): Promise<Account> {
    return this.#take(this.#http.PUT('/v1/auth/me/avatar', { body: { file_id } }));
  }
  remove(): Promise<Account> {
    return this.#take(this.#http.DELETE('/v1/auth/me/avatar'));
  }
}
