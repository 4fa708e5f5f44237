import { at, ifMatch, type Transport } from './http';
import { allPages } from './pages';
import type { components } from './schema';
import type { List } from './types';

type S = components['schemas'];

/** A reusable character for agents. */
export type Persona = S['Persona'];
export type PersonaPatch = S['PersonaPatch'];
export type PersonaVersion = S['PersonaVersion'];
export type CompressedPersona = S['CompressedPersona'];
export type PipelineStatus = S['PipelineStatus'];

/** API client for personas, `api.part(PersonasApi)`. Loaded with their pages. */
export class PersonasApi {
  #transport: Transport;
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#transport = transport;
    this.#http = transport.http;
    this.#take = transport.take;
  }
  /** Oldest first. */
  all(): Promise<Persona[]> {
    return allPages((query) => this.#take(this.#http.GET('/v1/personas', { params: { query } })));
  }
  get(id: string): Promise<Persona> {
    return this.#take(this.#http.GET('/v1/personas/{id}', at({ id })));
  }
  create(name: string): Promise<Persona> {
    return this.#take(this.#http.POST('/v1/personas', { body: { name } }));
  }
  duplicate(id: string, name: string): Promise<Persona> {
    return this.#take(this.#http.POST('/v1/personas/{id}/duplicate', { ...at({ id }), body: { name } }));
  }
  /** Fails with `Conflict` if the version has changed. */
  patch(id: string, version: number, body: PersonaPatch): Promise<Persona> {
    const params = { path: { id }, header: ifMatch(version) };
    return this.#take(this.#http.PATCH('/v1/personas/{id}', { params, body }));
  }
  async remove(id: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/personas/{id}', at({ id })));
  }
  /** Newest first. */
  versions(id: string, cursor?: string): Promise<List<PersonaVersion>> {
    const params = { path: { id }, query: { limit: 20, cursor } };
    return this.#take(this.#http.GET('/v1/personas/{id}/versions', { params }));
  }
  /** The text of the last approval; null if there was none. */
  async approvedText(id: string): Promise<string | null> {
    for (let cursor: string | undefined, more = true; more;) {
      const page = await this.versions(id, cursor);
      const approved = page.data.find((v) => v.snapshot.pipeline_status === 'approved');
      if (approved) return approved.snapshot.compressed;
      cursor = page.next_cursor ?? undefined;
      more = cursor !== undefined;
    }
    return null;
  }
  /** Drafts the text with a model, which can take longer than other requests. */
  compress(id: string): Promise<CompressedPersona> {
    const init = { ...at({ id }), fetch: this.#transport.untimed };
    return this.#take(this.#http.POST('/v1/personas/{id}/compress', init));
  }
}
