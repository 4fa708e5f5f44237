import { sendBytes, type Sending } from './files';
import { at, type Transport } from './http';
import { allPages } from './pages';
import type { components } from './schema';

type S = components['schemas'];

/** Files that people and agents search together. */
export type Collection = S['VectorStore'];
export type CollectionFile = S['StoreFile'];
type CollectionForm = S['StoreForm'];
/** A web page that is kept as a file. */
export type CollectionUrl = S['StoreUrl'];
/** A passage that answers a question. */
export type CollectionHit = S['StoreResult'];

const HITS = 5;

/** API client for collections, `api.part(CollectionsApi)`. Loaded with their page. */
export class CollectionsApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  /** Oldest first. */
  all(): Promise<Collection[]> {
    return allPages((page) =>
      this.#take(this.#http.GET('/v1/vector_stores', { params: { query: { ...page, order: 'asc' } } })),
    );
  }
  get(id: string): Promise<Collection> {
    return this.#take(this.#http.GET('/v1/vector_stores/{id}', at({ id })));
  }
  create(body: CollectionForm): Promise<Collection> {
    return this.#take(this.#http.POST('/v1/vector_stores', { body }));
  }
  async remove(id: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/vector_stores/{id}', at({ id })));
  }
  /** Oldest first. */
  files(id: string): Promise<CollectionFile[]> {
    return allPages((page) => {
      const params = { path: { id }, query: { ...page, order: 'asc' as const } };
      return this.#take(this.#http.GET('/v1/vector_stores/{id}/files', { params }));
    });
  }
  async urls(id: string): Promise<CollectionUrl[]> {
    return (await this.#take(this.#http.GET('/v1/vector_stores/{id}/urls', at({ id })))).data;
  }
  addUrl(id: string, url: string, every_s: number): Promise<CollectionUrl> {
    return this.#take(
      this.#http.POST('/v1/vector_stores/{id}/urls', { ...at({ id }), body: { url, every_s } }),
    );
  }
  /** Removes the file at a path, and its web page. */
  async removePath(id: string, path: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/vector_stores/{id}/paths/{path}', at({ id, path })));
  }
  async ask(id: string, query: string): Promise<CollectionHit[]> {
    const body = { query, max_num_results: HITS };
    return (await this.#take(this.#http.POST('/v1/vector_stores/{id}/search', { ...at({ id }), body }))).data;
  }
}

/** Sends a file to its path, where it replaces the one that is there. */
export function putFile(
  workspace: string,
  { id, path, file, ...sending }: { id: string; path: string; file: Blob } & Sending,
): Promise<CollectionFile> {
  const names = path.split('/').map(encodeURIComponent).join('/');
  return sendBytes<CollectionFile>({
    method: 'PUT',
    path: `/v1/vector_stores/${id}/paths/${names}`,
    headers: { 'X-Workspace-Id': workspace, 'Content-Type': 'application/octet-stream' },
    body: file,
    ...sending,
  });
}
