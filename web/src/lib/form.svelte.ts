import { say } from '../api/problem';

/** One form being sent: busy meanwhile, what went wrong after, and never twice at once. */
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
      this.problem = say(e);
      return false;
    } finally {
      this.busy = false;
    }
  }
  /** As an event handler of `<form onsubmit>`. */
  submit(work: () => Promise<void>): (e: SubmitEvent) => void {
    return (e) => {
      e.preventDefault();
      void this.run(work);
    };
  }
}
