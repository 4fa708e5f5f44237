import { SvelteMap } from 'svelte/reactivity';
import type { TaskDelta } from '../api/events';

/** Text of one streaming reply. `attempt` increases when the model is called again from the start. */
export class Stream {
  readonly message: string;
  readonly task: string;
  /** Thread or fork of the reply. */
  readonly place: string | null;
  attempt: number;
  /** Attempt whose text this one continues: after a tool call, the text so far stays. */
  since = $state(1);
  text = $state('');
  constructor(message: string, task: string, place: string | null, attempt: number) {
    this.message = message;
    this.task = task;
    this.place = place;
    this.attempt = this.since = attempt;
  }
}

const ENDED_KEPT = 300;

/** Assembles `task.delta` frames (docs/protocol.md). Offsets are UTF-16 units, as in JavaScript. */
export class Streams {
  readonly map = new SvelteMap<string, Stream>();
  #ended = new Set<string>();

  /** Adds a delta. Returns false if it does not fit; the caller must then subscribe again. */
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
      if (!d.text.startsWith(s.text.trimEnd())) s.since = d.attempt;
      s.text = d.text;
      return true;
    }
    const have = s.text.length;
    if (d.offset > have) return false;
    // The delta may contain known text: after a new subscription, the server sends the whole text again.
    const fresh = d.text.slice(have - d.offset);
    if (fresh) s.text += fresh;
    return true;
  }
  /**
   * Called when the final `message.updated` has arrived: its text is authoritative, and later deltas are late.
   */
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
