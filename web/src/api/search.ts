import type { Transport } from './http';
import type { Schemas } from './present';
import type { paths } from './schema';
import type { List, Message } from './types';

/** A search hit with its context; `highlight` is escaped HTML with `<mark>` (search/marks.ts). */
export type SearchHit = Message & Omit<Schemas['SearchHit'], keyof Message>;
type Query = NonNullable<paths['/v1/search']['get']['parameters']['query']>;

/** Client of the search page: `api.part(SearchApi)`. */
export class SearchApi {
  #transport: Transport;
  constructor(transport: Transport) {
    this.#transport = transport;
  }
  /** Newest first. */
  find(query: Query & { q: string }): Promise<List<SearchHit>> {
    const { http, take } = this.#transport;
    return take(http.GET('/v1/search', { params: { query } }));
  }
}
