import { at, type Transport } from './http';
import type { components } from './schema';
import type { Task } from './types';

type S = components['schemas'];

/** Summary of the messages of a thread after a given message. */
export type CatchUp = S['CatchUp'];
export type CatchUpSection = S['CatchUpSection'];
/** Unread messages of a channel, or of all channels: one line per thread. */
export type UnreadSummary = S['UnreadSummary'];
export type UnreadGroup = S['UnreadGroup'];
export type UnreadLine = S['UnreadLine'];

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
  /** Unread messages of a channel; of all of the user's channels if it is null. */
  unread(channel: string | null): Promise<UnreadSummary> {
    if (!channel) return this.#take(this.#http.GET('/v1/inbox/catch-up'));
    return this.#take(this.#http.GET('/v1/channels/{id}/catch-up', at({ id: channel })));
  }
  /** Queues a task in which a model writes the catch-up. */
  async write(id: string, since: number): Promise<Task> {
    const params = { path: { id }, query: { since } };
    return (await this.#take(this.#http.POST('/v1/threads/{id}/catch-up', { params }))).task;
  }
}
