import { errorMessage } from '../api/problem';

/** State of loaded content: loading, loaded, or failed. If several loads overlap, the last one counts. */
export class Loaded<T> {
  value = $state.raw<T | null>(null);
  problem = $state('');
  busy = $state(false);
  #read: () => Promise<T>;
  #run = 0;

  constructor(read: () => Promise<T>) {
    this.#read = read;
  }
  /** The current content stays on screen until the response arrives. */
  load = async (): Promise<void> => {
    const run = ++this.#run;
    this.busy = true;
    try {
      const value = await this.#read();
      if (run !== this.#run) return;
      this.value = value;
      this.problem = '';
    } catch (e) {
      if (run === this.#run) this.problem = errorMessage(e);
    } finally {
      if (run === this.#run) this.busy = false;
    }
  };
}
