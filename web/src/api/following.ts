import type { Transport } from './http';
import type { components } from './schema';

type S = components['schemas'];

export type FollowedKind = S['FollowedKind'];
export type FollowedConversation = S['FollowedConversation'];
export type FollowingPage = S['FollowingPage'];
export interface FollowingFilter {
  kind?: FollowedKind | undefined;
  unread?: boolean | undefined;
  q?: string | undefined;
}

/** API client for followed conversations, `api.part(FollowingApi)`. */
export class FollowingApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  list(filter: FollowingFilter, cursor: string | null = null): Promise<FollowingPage> {
    const query = { limit: 50, ...filter, cursor: cursor ?? undefined };
    return this.#take(this.#http.GET('/v1/following', { params: { query } }));
  }
}
