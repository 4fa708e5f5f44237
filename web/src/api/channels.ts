import type { Wire } from './api';
import type { Channel, List } from './types';

export type ListedChannel = Channel & { member_count: number };

/** Client of "Browse channels": `api.part(ChannelsApi)`. */
export class ChannelsApi {
  #wire: Wire;
  constructor(wire: Wire) {
    this.#wire = wire;
  }
  /** Oldest first. */
  list(after?: string): Promise<List<ListedChannel>> {
    return this.#wire.call('GET', '/v1/channels', { query: { limit: 100, after } });
  }
}
