import type { components } from './schema';
import type { Transport } from './http';

export type VectorStore = components['schemas']['VectorStore'];

/** Maximum number of objects in a page of the list. */
const PAGE = 100;

/** API client for collections, `api.part(VectorStoresApi)`. */
export class VectorStoresApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor({ http, take }: Transport) {
    this.#http = http;
    this.#take = take;
  }
  /** All that the person can read, oldest first. */
  async list(): Promise<VectorStore[]> {
    const all: VectorStore[] = [];
    for (;;) {
      const after = all.at(-1)?.id;
      const query = { limit: PAGE, order: 'asc' as const, ...(after && { after }) };
      const page = await this.#take(this.#http.GET('/v1/vector_stores', { params: { query } }));
      all.push(...page.data);
      if (!page.has_more || !page.data.length) return all;
    }
  }
}
