import { at, ifMatch, type Transport } from './http';
import type { components, paths } from './schema';
import type { List } from './types';

type S = components['schemas'];

/** A sentence that agents remember. */
export type Memory = S['Entry'];
export type MemoryKind = Memory['kind'];
export type MemoryScope = Memory['scope'];
export type NewMemory = S['MemoryForm'];
export type MemoryPatch = S['MemoryChange'];
export type MemorySettings = S['MemorySettings'];
/** The caller's text about themselves for agents. */
export type UserFile = S['UserFile'];
export type MemoryFilter = Omit<
  NonNullable<paths['/v1/memories']['get']['parameters']['query']>,
  'q' | 'cursor' | 'limit'
>;
/** Entries to forget together. */
export type Forgettable = { user_id: 'me' } | { thread_id: string } | { agent_id: string };

/** API client for memory, `api.part(MemoryApi)`. Loaded with its pages and dialogs. */
export class MemoryApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  /** Newest first. */
  list(query: MemoryFilter & { q?: string; cursor?: string; limit: number }): Promise<List<Memory>> {
    return this.#take(this.#http.GET('/v1/memories', { params: { query } }));
  }
  get(id: string): Promise<Memory> {
    return this.#take(this.#http.GET('/v1/memories/{id}', at({ id })));
  }
  /** Creates the entry. If an equal one exists, returns that one, and `isNew` is false. */
  async create(body: NewMemory): Promise<{ entry: Memory; isNew: boolean }> {
    let status = 0;
    const answer = this.#http.POST('/v1/memories', { body }).then((a) => {
      ({ status } = a.response);
      return a;
    });
    return { entry: await this.#take(answer), isNew: status === 201 };
  }
  /** Fails with `Conflict` if the entry no longer has `version`; null applies the change to any version. */
  change(id: string, version: number | null, body: MemoryPatch): Promise<Memory> {
    const params = { path: { id }, header: version === null ? {} : ifMatch(version) };
    return this.#take(this.#http.PATCH('/v1/memories/{id}', { params, body }));
  }
  async forget(id: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/memories/{id}', at({ id })));
  }
  /** Forgets entries and returns their number. */
  async forgetAll(query: Forgettable): Promise<number> {
    return (await this.#take(this.#http.DELETE('/v1/memories', { params: { query } }))).deleted;
  }
  /** Returns the copy that belongs to the workspace. */
  publish(id: string): Promise<Memory> {
    return this.#take(this.#http.POST('/v1/memories/{id}/publish', at({ id })));
  }
  settings(): Promise<MemorySettings> {
    return this.#take(this.#http.GET('/v1/memory-settings'));
  }
  userFile(): Promise<UserFile> {
    return this.#take(this.#http.GET('/v1/members/me/files/USER.md'));
  }
  /** Fails with `Conflict` if the file no longer has `version`. */
  putUserFile(body: S['UserFileForm'], version: number): Promise<UserFile> {
    const params = { header: ifMatch(version) };
    return this.#take(this.#http.PUT('/v1/members/me/files/USER.md', { params, body }));
  }
  removeUserFile(version: number): Promise<void> {
    const params = { header: ifMatch(version) };
    return this.#take(this.#http.DELETE('/v1/members/me/files/USER.md', { params }));
  }
  changeSettings(body: S['MemorySettingsPatch']): Promise<MemorySettings> {
    return this.#take(this.#http.PATCH('/v1/memory-settings', { body }));
  }
}
