import type { Transport } from './http';
import type { paths } from './schema';
import type { List } from './types';

type States = paths['/v1/adaptation']['get']['responses'][200]['content']['application/json'];
/** Adaptation state of an agent for the caller in a conversation. Nobody else can see it. */
export type AdaptationState = States['data'][number];

/** Small, because the title of each conversation is requested. */
const PAGE = 20;

/** API client for adaptation, `api.part(AdaptationApi)`. Loaded with its page. */
export class AdaptationApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  /** The caller's states in all conversations, newest conversation first. */
  states(cursor?: string): Promise<List<AdaptationState>> {
    return this.#take(this.#http.GET('/v1/adaptation', { params: { query: { limit: PAGE, cursor } } }));
  }
  async remove({ agent_id: id, thread_id, fork_id }: AdaptationState): Promise<void> {
    const query = fork_id ? { fork_id } : { thread_id };
    const params = { path: { id }, query };
    await this.#take(this.#http.DELETE('/v1/agents/{id}/state', { params }));
  }
  async removeAll(): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/adaptation'));
  }
}
