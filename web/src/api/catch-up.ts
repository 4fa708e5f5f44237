import type { Transport } from './http';
import type { components } from './schema';
import type { Task } from './types';

type S = components['schemas'];

/** Summary of the messages of a thread after a given message. */
export type CatchUp = S['CatchUp'];

/** API client for catch-ups, `api.part(CatchUpApi)`. Loaded with the button. */
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
  /** Queues a task in which a model writes the catch-up. */
  async write(id: string, since: number): Promise<Task> {
    const params = { path: { id }, query: { since } };
    return (await this.#take(this.#http.POST('/v1/threads/{id}/catch-up', { params }))).task;
  }
}
