import { SvelteMap } from 'svelte/reactivity';
import { readJson, type Shelf } from '../lib/storage';

const WRITE_AFTER_MS = 250;
const MAX = 100;
const isDrafts = (x: unknown): x is Record<string, string> =>
  typeof x === 'object' && x !== null && Object.values(x).every((v) => typeof v === 'string');

/**
 * Unsent text by composer (`c:` channel, `t:` thread, `d:` dive, `e:` edit), kept on the device;
 * who is to answer in the thread that a channel's composer starts next (`a:`), and the files that are to go along (`f:` and the key).
 */
export class Drafts {
  readonly #map: SvelteMap<string, string>;
  #shelf: Shelf;
  #name: string;
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(shelf: Shelf, name: string) {
    this.#shelf = shelf;
    this.#name = name;
    this.#map = new SvelteMap(Object.entries(readJson(shelf, name, isDrafts) ?? {}));
  }

  get(key: string): string {
    return this.#map.get(key) ?? '';
  }
  has(key: string): boolean {
    return this.#map.has(key);
  }
  set(key: string, text: string): void {
    this.#map.delete(key); // the newest goes last, so that the oldest is dropped first
    if (text.trim()) this.#map.set(key, text);
    if (this.#map.size > MAX) this.#map.delete(this.#map.keys().next().value!);
    this.#timer ??= setTimeout(() => this.flush(), WRITE_AFTER_MS);
  }
  clear(key: string): void {
    this.#map.delete(key);
    this.flush();
  }
  /** The composer has another key now. */
  move(from: string, to: string): void {
    const text = this.get(from);
    if (!text) return;
    this.clear(from);
    this.set(to, text);
  }
  /** Whether files are to go along. */
  files(key: string): boolean {
    return this.#map.has(`f:${key}`);
  }
  flush(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#map.size) this.#shelf.set(this.#name, JSON.stringify(Object.fromEntries(this.#map)));
    else this.#shelf.remove(this.#name);
  }
}
