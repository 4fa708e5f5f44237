import { readJson, type KeyValueStore } from '../lib/storage';
import type { OutItem } from './outbox-item';

export const isItem = (x: unknown): x is OutItem =>
  typeof x === 'object' && x !== null && 'client_id' in x && 'content' in x && 'channel_id' in x;
const isLegacy = (x: unknown): x is OutItem[] => Array.isArray(x) && x.every(isItem);

/** Start of the storage keys of a user's unsent messages; the workspace follows. */
export const outboxPrefix = (user: string): string => `openvibe.out.${user}.`;

/** Stored outbox: one entry per message, so that a window overwrites only the message that it changes. */
export class OutboxStore {
  #store: KeyValueStore;
  #prefix: string;

  /** `scope`: user and workspace, as `USER.WS`. */
  constructor(store: KeyValueStore, scope: string) {
    this.#store = store;
    this.#prefix = `openvibe.out.${scope}.`;
    this.#migrate(`openvibe.outbox.${scope}`);
  }

  /** All messages, oldest first. */
  all(): OutItem[] {
    return this.#store
      .keys(this.#prefix)
      .flatMap((key) => readJson(this.#store, key, isItem) ?? [])
      .sort((a, b) => a.order - b.order);
  }
  get(client_id: string): OutItem | null {
    return readJson(this.#store, this.#prefix + client_id, isItem);
  }
  set(item: OutItem): void {
    this.#store.set(this.#prefix + item.client_id, JSON.stringify(item));
  }
  remove(client_id: string): void {
    this.#store.remove(this.#prefix + client_id);
  }
  /** Calls `onchange` with the message that another window set or removed. Returns a function that stops it. */
  watch(onchange: (client_id: string) => void): () => void {
    return this.#store.watch((key) => {
      if (key.startsWith(this.#prefix)) onchange(key.slice(this.#prefix.length));
    });
  }
  /** Until version 0.1, the outbox was one entry. It is removed once each message is stored separately. */
  #migrate(legacy: string): void {
    const old = readJson(this.#store, legacy, isLegacy);
    if (!old) return;
    const stored = old.map((item, i) => {
      const key = this.#prefix + item.client_id;
      const order = Date.parse(item.created_at) + i;
      return this.#store.get(key) !== null || this.#store.set(key, JSON.stringify({ ...item, order }));
    });
    if (stored.every(Boolean)) this.#store.remove(legacy);
  }
}
