import { at, ifMatch, type Transport } from './http';
import { allPages } from './pages';
import type { components } from './schema';

type S = components['schemas'];

/** A folder of texts that agents read for certain work. */
export type Skill = S['Skill'];
type SkillForm = S['SkillForm'];

/** A zip file as a body; the document describes it as numbers. */
const zipped = (zip: Blob) => ({
  body: zip as never,
  bodySerializer: (body: unknown) => body,
  headers: { 'Content-Type': 'application/zip' },
});

/** API client for skills, `api.part(SkillsApi)`. Loaded with their pages. */
export class SkillsApi {
  #http: Transport['http'];
  #take: Transport['take'];
  #untimed: Transport['untimed'];
  constructor({ http, take, untimed }: Transport) {
    this.#http = http;
    this.#take = take;
    this.#untimed = untimed;
  }
  /** By name, without the texts of files. */
  all(): Promise<Skill[]> {
    return allPages((query) => this.#take(this.#http.GET('/v1/skills', { params: { query } })));
  }
  get(id: string): Promise<Skill> {
    return this.#take(this.#http.GET('/v1/skills/{id}', at({ id })));
  }
  create(zip: Blob): Promise<Skill> {
    return this.#take(this.#http.POST('/v1/skills', zipped(zip)));
  }
  /** Creates a skill from a folder of a repository, which its runner fetches first. */
  import(repository_id: string, path: string): Promise<Skill> {
    const options = { body: { repository_id, path }, fetch: this.#untimed };
    return this.#take(this.#http.POST('/v1/skills/import', options));
  }
  /** Replaces the files. Fails with `Conflict` if the version has changed. */
  replace(id: string, version: number, zip: Blob): Promise<Skill> {
    const params = { path: { id }, header: ifMatch(version) };
    const { headers, ...body } = zipped(zip);
    return this.#take(this.#http.PUT('/v1/skills/{id}', { params, headers, ...body }));
  }
  put(id: string, version: number, body: SkillForm): Promise<Skill> {
    const params = { path: { id }, header: ifMatch(version) };
    return this.#take(this.#http.PUT('/v1/skills/{id}', { params, body }));
  }
  async remove(id: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/skills/{id}', at({ id })));
  }
}
