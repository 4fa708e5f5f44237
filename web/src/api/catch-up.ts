import type { Transport } from './http';
import type { components } from './schema';
import type { Task } from './types';

type S = components['schemas'];

/** Summary of a thread after a message. */
export type CatchUp = S['CatchUp'];

/** Client of catch-ups, `api.part(CatchUpApi)`. Loaded with the button. */
export class CatchUpApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  get(id: string, since: number): Promise<CatchUp> {
    const params = { path: { id }, query: { since } };
    return this.#take(this.#http.GET('/v1/threads/{id}/catch-up', { params }));
  }
  /** The queued task. */
  async write(id: string, since: number): Promise<Task> {
    const params = { path: { id }, query: { since } };
    return (await this.#take(this.#http.POST('/v1/threads/{id}/catch-up', { params }))).task;
  }
}
