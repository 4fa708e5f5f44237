import type { Transport } from './http';
import type { components, paths } from './schema';
import type { List, Message } from './types';

type S = components['schemas'];

/** A search hit with its context; `highlight` is escaped HTML with `<mark>` (search/marks.ts). */
export type SearchHit = Message & Omit<S['SearchHit'], keyof Message>;
/** Hits, newest first; `index` is set while the server rebuilds its index. */
export type SearchPage = List<SearchHit> & Pick<S['SearchPage'], 'index'>;
/** A passage of a file. */
export type FileHit = S['Passage'];
type Query = NonNullable<paths['/v1/search']['get']['parameters']['query']>;

/** API client for the search page: `api.part(SearchApi)`. */
export class SearchApi {
  #transport: Transport;
  constructor(transport: Transport) {
    this.#transport = transport;
  }
  /** Newest first. */
  find(query: Query & { q: string }): Promise<SearchPage> {
    const { http, take } = this.#transport;
    // Without `kind=file`, the hits are messages.
    return take(http.GET('/v1/search', { params: { query } })) as Promise<SearchPage>;
  }
  /** Passages of files, newest first by default. */
  files(query: Query & { q: string }): Promise<S['PassagePage']> {
    const { http, take } = this.#transport;
    const params = { query: { ...query, kind: 'file' as const } };
    return take(http.GET('/v1/search', { params })) as Promise<S['PassagePage']>;
  }
}
