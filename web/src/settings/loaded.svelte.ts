import { say } from '../api/problem';

/** What a page reads when it opens: on its way, here, or why not. Of several at once the last one counts. */
export class Loaded<T> {
  value = $state.raw<T | null>(null);
  problem = $state('');
  busy = $state(false);
  #read: () => Promise<T>;
  #run = 0;

  constructor(read: () => Promise<T>) {
    this.#read = read;
  }
  /** What is shown stays until the answer is here. */
  load = async (): Promise<void> => {
    const run = ++this.#run;
    this.busy = true;
    try {
      const value = await this.#read();
      if (run !== this.#run) return;
      this.value = value;
      this.problem = '';
    } catch (e) {
      if (run === this.#run) this.problem = say(e);
    } finally {
      if (run === this.#run) this.busy = false;
    }
  };
}
