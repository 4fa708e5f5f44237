import { SvelteMap } from 'svelte/reactivity';
import type { TaskDelta } from '../api/events';

/** The text of one reply while it is written. `attempt` grows when the model is asked again from the start. */
export class Stream {
  readonly message: string;
  readonly task: string;
  /** The thread or dive that it is written in. */
  readonly place: string | null;
  attempt = $state(1);
  text = $state('');
  constructor(message: string, task: string, place: string | null, attempt: number) {
    this.message = message;
    this.task = task;
    this.place = place;
    this.attempt = attempt;
  }
}

const ENDED_KEPT = 300;

/** Deltas of `task.delta` put together (PROTOCOL.md §4.5). Offsets are UTF-16 units, as JavaScript counts. */
export class Streams {
  readonly map = new SvelteMap<string, Stream>();
  #ended = new Set<string>();

  /** False: this piece does not fit, subscribe again. */
  delta(d: TaskDelta, place: string | null = null): boolean {
    if (this.#ended.has(d.message_id)) return true;
    let s = this.map.get(d.message_id);
    if (!s) {
      if (d.offset !== 0) return false;
      s = new Stream(d.message_id, d.task_id, place, d.attempt);
      this.map.set(d.message_id, s);
    }
    if (d.attempt < s.attempt) return true;
    if (d.attempt > s.attempt) {
      if (d.offset !== 0) return false;
      s.attempt = d.attempt;
      s.text = d.text;
      return true;
    }
    const have = s.text.length;
    if (d.offset > have) return false;
    // Already here, or the whole text again after a new subscription.
    const fresh = d.text.slice(have - d.offset);
    if (fresh) s.text += fresh;
    return true;
  }
  /** The final `message.updated` came: its text is the truth, and later deltas are late. */
  end(message: string): void {
    this.map.delete(message);
    this.#ended.add(message);
    if (this.#ended.size > ENDED_KEPT) this.#ended.delete(this.#ended.values().next().value!);
  }
  clear(): void {
    this.map.clear();
    this.#ended.clear();
  }
}
