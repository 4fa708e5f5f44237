import type { Transport } from './api';
import type { components } from './schema';
import type { List, Message } from './types';

type S = components['schemas'];
/** A search hit with its context; `highlight` is escaped HTML with `<mark>` (search/marks.ts). */
export type SearchHit = Message &
  Pick<S['SearchHit'], 'highlight' | 'reply_count'> & {
    [K in 'thread_title' | 'thread_title_highlight' | 'channel_name']: string | null;
  };

/** Client of the search page: `api.part(SearchApi)`. */
export class SearchApi {
  #transport: Transport;
  constructor(transport: Transport) {
    this.#transport = transport;
  }
  /** Newest first. */
  find(of: {
    q: string;
    kind?: 'thread';
    thread_id?: string;
    order?: 'oldest';
    limit?: number;
    cursor?: string;
  }): Promise<List<SearchHit>> {
    return this.#transport.call('GET', '/v1/search', { query: of });
  }
}
