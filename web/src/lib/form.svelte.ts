import { errorMessage } from '../api/problem';

/** State of a form: busy while it is sent, error afterwards, and no concurrent submissions. */
export class Form {
  busy = $state(false);
  problem = $state('');

  async run(work: () => Promise<void>): Promise<boolean> {
    if (this.busy) return false;
    this.busy = true;
    this.problem = '';
    try {
      await work();
      return true;
    } catch (e) {
      this.problem = errorMessage(e);
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
