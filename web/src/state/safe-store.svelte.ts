import { SvelteSet } from 'svelte/reactivity';
import type { Shelf } from '../lib/storage';

/** Device storage, and the writes of this window that the browser rejected: those live only as long as the window. */
export class SafeStore implements Shelf {
  readonly #refused = new SvelteSet<string>();
  #shelf: Shelf;

  constructor(shelf: Shelf) {
    this.#shelf = shelf;
  }

  get failing(): boolean {
    return this.#refused.size > 0;
  }
  get(key: string): string | null {
    return this.#shelf.get(key);
  }
  set(key: string, value: string): boolean {
    const stored = this.#shelf.set(key, value);
    if (stored) this.#refused.delete(key);
    else this.#refused.add(key);
    return stored;
  }
  remove(key: string): void {
    this.#shelf.remove(key);
    this.#refused.delete(key);
  }
  keys(prefix: string): string[] {
    return this.#shelf.keys(prefix);
  }
  watch(onchange: (key: string) => void): () => void {
    return this.#shelf.watch(onchange);
  }
}
