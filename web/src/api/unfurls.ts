import { at, type Transport } from './http';
import type { Message } from './types';

/** API client for previews of links. Loaded on demand. */
export class UnfurlsApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor({ http, take }: Transport) {
    this.#http = http;
    this.#take = take;
  }

  /** Removes the previews from a message. */
  remove(message: string): Promise<Message> {
    return this.#take(this.#http.DELETE('/v1/messages/{id}/unfurls', at({ id: message })));
  }
}
