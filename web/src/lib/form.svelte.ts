import { ApiError, errorMessage } from '../api/problem';

/** State of a form: busy while it is sent, error afterwards, and no concurrent submissions. */
export class Form {
  busy = $state(false);
  problem = $state('');
  /** Field that the server rejected; null if the error is about no field. */
  #param = $state<string | null>(null);

  /** Error of a field by its names in the API; blank if the error is not about it. */
  at(...names: string[]): string {
    return this.#param !== null && names.includes(this.#param) ? this.problem : '';
  }
  async run(work: () => Promise<void>): Promise<boolean> {
    if (this.busy) return false;
    this.busy = true;
    this.problem = '';
    this.#param = null;
    try {
      await work();
      return true;
    } catch (e) {
      this.problem = errorMessage(e);
      this.#param = e instanceof ApiError ? e.param : null;
      return false;
    } finally {
      this.busy = false;
    }
  }
  /** Event handler for `<form onsubmit>`. */
  submit(work: () => Promise<void>): (e: SubmitEvent) => void {
    return (e) => {
      e.preventDefault();
      void this.run(work);
    };
  }
}
