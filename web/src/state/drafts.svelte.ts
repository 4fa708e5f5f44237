import { SvelteMap } from 'svelte/reactivity';
import { readJson, type KeyValueStore } from '../lib/storage';

const KEEP_MS = 90 * 86_400_000;

interface StoredDraft {
  text: string;
  /** Time of the last change, in ms since 1970. */
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

/** Draft of a message: its text, or files alone. */
export interface MessageDraft {
  /** Draft key of the composer: `c:`, `t:`, or `d:`, and the ID. */
  place: string;
  text: string;
  /** Time of the last change, in ms since 1970. */
  at: number;
}
const isMessagePlace = (key: string): boolean => /^[ctd]:/.test(key);

/**
 * Unsent text by composer (`c:` channel, `t:` thread, `d:` fork, `e:` edit, `n:` new object), stored on the device;
 * also the agent chosen for a channel's next thread (`a:`), and attached files (`f:` plus the key).
 * Each is a separate entry, so that windows overwrite only what they edit. Entries expire after 90 days without a
 * change.
 */
export class Drafts {
  readonly #map = new SvelteMap<string, StoredDraft>();
  /** Texts of focused composers as another window edited them. */
  readonly #others = new SvelteMap<string, string>();
  /** Focused composers, whose text another window does not replace. */
  #held = new Map<string, () => boolean>();
  /** Keys of texts that were written in this window. */
  #own = new Set<string>();
  #store: KeyValueStore;
  #prefix: string;
  /** Writes that the browser rejected; retried with the next change. */
  #unsaved = new Set<string>();
  #unwatch: () => void;
  #now: () => number;
  /** Maps a composer's former key to its current one. */
  #moved = new Map<string, string>();

  /** `scope`: user and workspace, as `USER.WS`. */
  constructor(store: KeyValueStore, scope: string, now: () => number = Date.now) {
    this.#store = store;
    this.#prefix = `openvibe.draft.${scope}.`;
    this.#now = now;
    this.#migrate(`openvibe.drafts.${scope}`);
    for (const stored of store.keys(this.#prefix)) {
      const draft = readJson(store, stored, isDraft);
      if (draft && draft.at > now() - KEEP_MS) this.#map.set(stored.slice(this.#prefix.length), draft);
      else store.remove(stored);
    }
    this.#unwatch = store.watch((stored) => this.#changedElsewhere(stored));
  }

  get(key: string): string {
    return this.#map.get(key)?.text ?? '';
  }
  has(key: string): boolean {
    return this.#map.has(key);
  }
  set(key: string, text: string): void {
    if (!text.trim() || text === this.#others.get(key)) this.#others.delete(key);
    this.#put(key, text.trim() ? { text, at: this.#now() } : null);
  }
  /** Keeps the text of a composer while it has the focus. Returns a function that ends this. */
  hold(key: string, isFocused: () => boolean): () => void {
    this.#held.set(key, isFocused);
    return () => {
      if (this.#held.get(key) === isFocused) this.#held.delete(key);
    };
  }
  /** Text of a focused composer as another window edited it; null if there is none. */
  otherOf(key: string): string | null {
    return this.#others.get(key) ?? null;
  }
  #put(key: string, draft: StoredDraft | null): void {
    if (draft) this.#map.set(key, draft);
    else this.#map.delete(key);
    this.#own.add(key);
    this.#unsaved.add(key);
    this.flush();
  }
  /** Deletes a text that was sent. Then the text of another window is the draft, unless the sent one contains it. */
  clear(key: string): void {
    const other = this.otherOf(key) ?? '';
    this.set(key, this.get(key).includes(other) ? '' : other);
  }
  /** Moves the draft to the composer's new key. */
  move(from: string, to: string): void {
    this.#moved.set(from, to);
    const text = this.get(from);
    if (!text) return;
    this.set(to, text);
    this.clear(from);
  }
  /** The current key of this composer, for work that started under its former key. */
  current(key: string): string {
    return this.#moved.get(key) ?? key;
  }
  /** Checks whether files are attached. */
  files(key: string): boolean {
    return this.#map.has(`f:${key}`);
  }
  /** Drafts of messages on this device, last changed first. */
  get messages(): MessageDraft[] {
    const found = new Map<string, MessageDraft>();
    for (const [key, { text, at }] of this.#map) {
      const place = key.startsWith('f:') ? key.slice(2) : key;
      if (!isMessagePlace(place)) continue;
      const known = found.get(place);
      const own = place === key ? text : (known?.text ?? '');
      found.set(place, { place, text: own, at: Math.max(at, known?.at ?? 0) });
    }
    return [...found.values()].sort((a, b) => b.at - a.at);
  }
  /** Deletes the draft of a message with its files. Returns a function that restores it, unless a new one was begun. */
  remove(place: string): () => void {
    const removed = [place, `f:${place}`].map((key) => [key, this.#map.get(key) ?? null] as const);
    for (const [key] of removed) this.clear(key);
    return () => {
      for (const [key, draft] of removed) if (draft && !this.#map.has(key)) this.#put(key, draft);
    };
  }
  /** Stores pending writes. */
  flush(): void {
    for (const key of this.#unsaved) if (this.#persist(key)) this.#unsaved.delete(key);
  }
  dispose(): void {
    this.flush();
    this.#unwatch();
  }

  #persist(key: string): boolean {
    const draft = this.#map.get(key);
    if (draft) return this.#store.set(this.#prefix + key, JSON.stringify(draft));
    this.#store.remove(this.#prefix + key);
    return true;
  }
  /** Reads the stored value, not the event's: events of two windows may cross. */
  #changedElsewhere(stored: string): void {
    if (!stored.startsWith(this.#prefix)) return;
    const key = stored.slice(this.#prefix.length);
    if (this.#unsaved.has(key)) return; // the value here was never stored
    const draft = readJson(this.#store, stored, isDraft);
    if (this.#keeps(key, draft?.text ?? null)) return;
    this.#others.delete(key);
    this.#own.delete(key);
    if (draft) this.#map.set(key, draft);
    else this.#map.delete(key);
  }
  /** Keeps the text of a focused composer, beside the text of another window; null if it was sent or deleted there. */
  #keeps(key: string, text: string | null): boolean {
    const own = this.get(key);
    if (!own || own === text || !this.#own.has(key) || !this.#held.get(key)?.()) return false;
    if (text !== null) {
      this.#others.set(key, text);
      return true;
    }
    const other = this.#others.get(key);
    if (other === undefined || other.includes(own)) return false;
    // Only this window has its text, which the other one replaced on the device.
    this.#others.delete(key);
    this.#unsaved.add(key);
    this.flush();
    return true;
  }
  /** Until version 0.1, all drafts were one entry. It is removed once each draft is stored separately. */
  #migrate(legacy: string): void {
    const old = readJson(this.#store, legacy, isLegacy);
    if (!old) return;
    const stored = Object.entries(old).map(
      ([key, text]) =>
        this.#store.get(this.#prefix + key) !== null ||
        this.#store.set(this.#prefix + key, JSON.stringify({ text, at: this.#now() } satisfies StoredDraft)),
    );
    if (stored.every(Boolean)) this.#store.remove(legacy);
  }
}
