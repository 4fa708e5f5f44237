import { SvelteMap } from 'svelte/reactivity';
import type { Run } from '../api/runs';
import type { TaskTreesApi } from '../api/task-trees';

/** Costs of runs by ID, loaded one after the other, and again when a status has changed. */
export class RunCosts {
  /** Null: unknown, or not shown to the user. */
  readonly map = new SvelteMap<string, number | null>();
  #api: Pick<TaskTreesApi, 'get'>;
  #asked = new Map<string, Run['status']>();
  #last = Promise.resolve();

  constructor(api: Pick<TaskTreesApi, 'get'>) {
    this.#api = api;
  }
  want({ id, root_task_id, status }: Run): void {
    if (this.#asked.get(id) === status) return;
    this.#asked.set(id, status);
    this.#last = this.#last.then(async () => {
      try {
        this.map.set(id, (await this.#api.get(root_task_id)).spent.cost_usd);
      } catch {
        return; // the previous cost stays on screen
      }
    });
  }
}
