import type { CostsApi } from '../api/costs';

/** Cost of a fork so far. */
export class ForkCost {
  usd = $state<number | null>(null);
  #api: Pick<CostsApi, 'ofFork'>;
  #run = 0;

  constructor(api: Pick<CostsApi, 'ofFork'>) {
    this.#api = api;
  }
  load = async (fork: string): Promise<void> => {
    const run = ++this.#run;
    try {
      const usd = await this.#api.ofFork(fork);
      if (run === this.#run) this.usd = usd;
    } catch {
      // The header works without the cost.
      if (run === this.#run) this.usd = null;
    }
  };
}
