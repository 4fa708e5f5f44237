import { SvelteMap } from 'svelte/reactivity';
import { readJson, type Shelf } from '../lib/storage';

const KEEP_MS = 90 * 86_400_000;

interface StoredDraft {
  text: string;
  /** When it was last changed, in ms since 1970. */
  at: number;
}
export const isDraft = (x: unknown): x is StoredDraft =>
  typeof x === 'object' &&
  x !== null &&
  'text' in x &&
  typeof x.text === 'string' &&
  'at' in x &&
  typeof x.at === 'number';
const isLegacy = (x: unknown): x is Record<string, string> =>
  typeof x === 'object' && x !== null && Object.values(x).every((v) => typeof v === 'string');

/**
 * Unsent text by composer (`c:` channel, `t:` thread, `d:` dive, `e:` edit), kept on the device;
 * who is to answer in the thread that a channel's composer starts next (`a:`), and the files that are to go along (`f:` and the key).
 * Each is an entry of its own, so that windows change only what is typed in them. Untouched for 90 days, it is deleted.
 */
export class Drafts {
  readonly #map = new SvelteMap<string, string>();
  #shelf: Shelf;
  #prefix: string;
  /** Refused by the browser; tried again with the next change. */
  #unstored = new Set<string>();
  #unwatch: () => void;
  #now: () => number;
  /** From a composer's former key to the one that it has now. */
  #moved = new Map<string, string>();

  /** `scope`: the user and the workspace, as `USER.WS`. */
  constructor(shelf: Shelf, scope: string, now: () => number = Date.now) {
    this.#shelf = shelf;
    this.#prefix = `openvibe.draft.${scope}.`;
    this.#now = now;
    this.#migrate(`openvibe.drafts.${scope}`);
    for (const stored of shelf.keys(this.#prefix)) {
      const draft = readJson(shelf, stored, isDraft);
      if (draft && draft.at > now() - KEEP_MS) this.#map.set(stored.slice(this.#prefix.length), draft.text);
      else shelf.remove(stored);
    }
    this.#unwatch = shelf.watch((stored) => this.#changedElsewhere(stored));
  }

  get(key: string): string {
    return this.#map.get(key) ?? '';
  }
  has(key: string): boolean {
    return this.#map.has(key);
  }
  set(key: string, text: string): void {
    if (text.trim()) this.#map.set(key, text);
    else this.#map.delete(key);
    this.#unstored.add(key);
    this.flush();
  }
  clear(key: string): void {
    this.set(key, '');
  }
  /** The composer has another key now. */
  move(from: string, to: string): void {
    this.#moved.set(from, to);
    const text = this.get(from);
    if (!text) return;
    this.set(to, text);
    this.clear(from);
  }
  /** The key that this composer has now, for work that began under its former key. */
  current(key: string): string {
    return this.#moved.get(key) ?? key;
  }
  /** Whether files are to go along. */
  files(key: string): boolean {
    return this.#map.has(`f:${key}`);
  }
  /** Stores what is not stored yet. */
  flush(): void {
    for (const key of this.#unstored) if (this.#store(key)) this.#unstored.delete(key);
  }
  dispose(): void {
    this.flush();
    this.#unwatch();
  }

  #store(key: string): boolean {
    const text = this.#map.get(key);
    if (text !== undefined) return this.#shelf.set(this.#prefix + key, this.#entry(text));
    this.#shelf.remove(this.#prefix + key);
    return true;
  }
  #entry(text: string): string {
    return JSON.stringify({ text, at: this.#now() } satisfies StoredDraft);
  }
  /** What is stored now counts, not what the event carries: events of two windows may cross. */
  #changedElsewhere(stored: string): void {
    if (!stored.startsWith(this.#prefix)) return;
    const key = stored.slice(this.#prefix.length);
    if (this.#unstored.has(key)) return; // what is here never got there
    const draft = readJson(this.#shelf, stored, isDraft);
    if (draft) this.#map.set(key, draft.text);
    else this.#map.delete(key);
  }
  /** Until 0.1 all drafts were one entry. It goes once each of them is stored. */
  #migrate(legacy: string): void {
    const old = readJson(this.#shelf, legacy, isLegacy);
    if (!old) return;
    const stored = Object.entries(old).map(
      ([key, text]) =>
        this.#shelf.get(this.#prefix + key) !== null ||
        this.#shelf.set(this.#prefix + key, this.#entry(text)),
    );
    if (stored.every(Boolean)) this.#shelf.remove(legacy);
  }
}
