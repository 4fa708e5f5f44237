import type { Transport } from './api';
import type { Channel, List } from './types';

export type ListedChannel = Channel & { member_count: number };

/** Client of "Browse channels": `api.part(ChannelsApi)`. */
export class ChannelsApi {
  #transport: Transport;
  constructor(transport: Transport) {
    this.#transport = transport;
  }
  /** Oldest first. */
  list(after?: string): Promise<List<ListedChannel>> {
    return this.#transport.call('GET', '/v1/channels', { query: { limit: 100, after } });
  }
}
