import { SvelteSet } from 'svelte/reactivity';
import type { KeyValueStore } from '../lib/storage';

/** Device storage, and the writes of this window that the browser rejected: those live only as long as the window. */
export class SafeStore implements KeyValueStore {
  readonly #refused = new SvelteSet<string>();
  #store: KeyValueStore;

  constructor(store: KeyValueStore) {
    this.#store = store;
  }

  get failing(): boolean {
    return this.#refused.size > 0;
  }
  get(key: string): string | null {
    return this.#store.get(key);
  }
  set(key: string, value: string): boolean {
    const stored = this.#store.set(key, value);
    if (stored) this.#refused.delete(key);
    else this.#refused.add(key);
    return stored;
  }
  remove(key: string): void {
    this.#store.remove(key);
    this.#refused.delete(key);
  }
  keys(prefix: string): string[] {
    return this.#store.keys(prefix);
  }
  watch(onchange: (key: string) => void): () => void {
    return this.#store.watch(onchange);
  }
}
