import { SvelteMap } from 'svelte/reactivity';
import type { EphemeralMessage } from '../api/events';

/** Maximum number in a thread or channel, so that a program cannot fill the screen: the oldest is removed. */
const IN_PLACE_MAX = 5;

const placeOf = (m: EphemeralMessage): string => m.thread_id ?? m.channel_id;

/** Messages that only this person sees, until they dismiss them or reload. The server does not store them. */
export class EphemeralMessages {
  readonly #places = new SvelteMap<string, readonly EphemeralMessage[]>();

  add(m: EphemeralMessage): void {
    const place = placeOf(m);
    this.#places.set(place, [...this.in(place), m].slice(-IN_PLACE_MAX));
  }
  /** Messages in a thread, or in a channel outside of its threads. */
  in(place: string): readonly EphemeralMessage[] {
    return this.#places.get(place) ?? [];
  }
  dismiss(m: EphemeralMessage): void {
    const place = placeOf(m);
    const left = this.in(place).filter((other) => other.id !== m.id);
    if (left.length) this.#places.set(place, left);
    else this.#places.delete(place);
  }
}
