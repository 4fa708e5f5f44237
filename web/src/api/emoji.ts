import type { Transport } from './http';
import type { components } from './schema';

export type CustomEmoji = components['schemas']['CustomEmoji'];

/** API client for custom emoji, `api.part(EmojiApi)`. */
export class EmojiApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor({ http, take }: Transport) {
    this.#http = http;
    this.#take = take;
  }
  /** By name. */
  async list(): Promise<CustomEmoji[]> {
    return (await this.#take(this.#http.GET('/v1/emoji'))).data;
  }
  add(name: string, file_id: string): Promise<CustomEmoji> {
    return this.#take(this.#http.POST('/v1/emoji', { body: { name, file_id } }));
  }
  remove(name: string): Promise<unknown> {
    return this.#take(this.#http.DELETE('/v1/emoji', { params: { query: { name } } }));
  }
}
