import type { Transport } from './http';

/** API client for the costs of conversations, `api.part(CostsApi)`. */
export class CostsApi {
  #transport: Transport;
  constructor(transport: Transport) {
    this.#transport = transport;
  }
  /** In US dollars; null if the price is unknown or the workspace does not show it. */
  async ofFork(fork_id: string): Promise<number | null> {
    const { http, take } = this.#transport;
    const { total } = await take(http.GET('/v1/usage', { params: { query: { fork_id } } }));
    return total.cost_usd ?? null;
  }
}
