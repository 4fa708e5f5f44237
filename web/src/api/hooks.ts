import { at, type Transport } from './http';
import { allPages } from './pages';
import type { components } from './schema';

type S = components['schemas'];

/** An address to which a program sends messages for a channel. */
export type Hook = S['Hook'];
export type Bot = S['Bot'];
/** A webhook with its address, which is shown only once. */
export type NewHook = S['NewHook'];
export type HookForm = S['HookForm'];
/** A request that a webhook received. */
export type HookRequest = S['HookRequest'];

/** API client for webhooks, `api.part(HooksApi)`. Loaded with their settings. */
export class HooksApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  /** Oldest first. */
  all(): Promise<Hook[]> {
    return allPages((query) => this.#take(this.#http.GET('/v1/hooks', { params: { query } })));
  }
  /** Oldest first. */
  bots(): Promise<Bot[]> {
    return allPages((query) => this.#take(this.#http.GET('/v1/bots', { params: { query } })));
  }
  create(body: HookForm): Promise<NewHook> {
    return this.#take(this.#http.POST('/v1/hooks', { body }));
  }
  rotate(id: string): Promise<NewHook> {
    return this.#take(this.#http.POST('/v1/hooks/{id}/rotate', at({ id })));
  }
  /** The newest 50, newest first. */
  async requests(id: string): Promise<HookRequest[]> {
    const params = { path: { id }, query: { limit: 50 } };
    return (await this.#take(this.#http.GET('/v1/hooks/{id}/requests', { params }))).data;
  }
  postAgain(id: string, request_id: string): Promise<HookRequest> {
    return this.#take(this.#http.POST('/v1/hooks/{id}/requests/{request_id}/post', at({ id, request_id })));
  }
  async remove(id: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/hooks/{id}', at({ id })));
  }
}
