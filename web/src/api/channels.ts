import type { Transport } from './http';
import type { components } from './schema';
import type { List } from './types';

export type ListedChannel = components['schemas']['ListedChannel'];

/** Same as the server's limit for channels in a snapshot. */
export const PAGES_MAX = 20;

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
  /** Number of members of a channel; 0 if it is not among the listed ones. */
  async memberCount(channel: string): Promise<number> {
    let after: string | undefined;
    for (let page = 0; page < PAGES_MAX; page++) {
      const { data, has_more } = await this.list(after);
      const found = data.find((c) => c.id === channel);
      if (found) return found.member_count;
      after = data.at(-1)?.id;
      if (!has_more || !after) break;
    }
    return 0;
  }
}
