import { at, type Transport } from './http';
import type { Message } from './types';

/** API client for pinned messages, `api.part(PinsApi)`. */
export class PinsApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor({ http, take }: Transport) {
    this.#http = http;
    this.#take = take;
  }
  pin(id: string): Promise<Message> {
    return this.#take(this.#http.PUT('/v1/messages/{id}/pin', at({ id })));
  }
  unpin(id: string): Promise<Message> {
    return this.#take(this.#http.DELETE('/v1/messages/{id}/pin', at({ id })));
  }
  /** Pinned last first. */
  async list(channel: string): Promise<Message[]> {
    return (await this.#take(this.#http.GET('/v1/channels/{id}/pins', at({ id: channel })))).data;
  }
}
