import type { Wire } from './api';
import type { List, Message } from './types';

/** A message that was found, with what a list shows of its place. */
export type SearchHit = Message & {
  /** Around the first match: escaped HTML with `<mark>` (lib of the page: `marked`). */
  highlight: string;
  thread_title: string | null;
  /** The title in the same way, where words of it matched. */
  thread_title_highlight: string | null;
  channel_name: string | null;
  reply_count: number;
};

/** The calls of the search page: `api.part(SearchApi)`. */
export class SearchApi {
  #wire: Wire;
  constructor(wire: Wire) {
    this.#wire = wire;
  }
  /** Newest first. */
  find(of: { q: string; limit?: number; cursor?: string }): Promise<List<SearchHit>> {
    return this.#wire.call('GET', '/v1/search', { query: of });
  }
}
