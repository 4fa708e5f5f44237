import type { Transport } from './http';
import type { components } from './schema';
import type { List } from './types';

export type ListedChannel = components['schemas']['ListedChannel'];

/** API client for "Browse channels": `api.part(ChannelsApi)`. */
export class ChannelsApi {
  #transport: Transport;
  constructor(transport: Transport) {
    this.#transport = transport;
  }
  /** Oldest first. */
  list(after?: string): Promise<List<ListedChannel>> {
    const { http, take } = this.#transport;
    return take(http.GET('/v1/channels', { params: { query: { limit: 100, after } } }));
  }
}
