import { ApiError } from '../api/problem';

/** Changes that the server permits only to a person who confirmed their identity in the last 10 minutes. */
export class Confirmation {
  /** Ends the question that is on screen; null if there is none. */
  settle = $state.raw<((confirmed: boolean) => void) | null>(null);

  /** Makes a change, after a confirmation if the server demands one. Returns null if the person declines. */
  async run<T>(change: () => Promise<T>): Promise<T | null> {
    try {
      return await change();
    } catch (e) {
      if (!(e instanceof ApiError) || e.code !== 'confirmation_required') throw e;
    }
    const confirmed = await new Promise<boolean>((settle) => (this.settle = settle));
    this.settle = null;
    return confirmed ? change() : null;
  }
}
