import { readJson, type KeyValueStore } from '../lib/storage';
import type { InboxItemChange } from '../api/inbox';

type Level = 'all' | 'mentions' | 'none';
/** Values that a change without a connection can set, by kind of object. */
interface Values {
  item: Pick<InboxItemChange, 'state' | 'until'>;
  /** Event up to which a thread was read. */
  read: number;
  'fork-read': number;
  /** Null restores the default. */
  follow: Level | null;
  'fork-follow': Level | null;
  level: Level;
}
type Kind = keyof Values;
/** A change that was made without a connection. `isBack`: a marker that the person moved back. */
export type Change = { [K in Kind]: { kind: K; id: string; value: Values[K]; isBack?: true } }[Kind];
/** `at`: time of the change, in ms since 1970. */
export type StoredChange = Change & { at: number };
const isChange = (x: unknown): x is StoredChange =>
  typeof x === 'object' && x !== null && 'kind' in x && 'id' in x && 'value' in x && 'at' in x;

/** A later change of the same object replaces an older one; changes that wait longer are dropped. */
const WAIT_MS = 14 * 86_400_000;

/** Changes that wait for a connection: the last value for each object. All windows share them. */
export class Changes {
  #store: KeyValueStore;
  #prefix: string;
  #now: () => number;

  /** `scope`: user and workspace, as `USER.WS`. */
  constructor(store: KeyValueStore, scope: string, now: () => number = Date.now) {
    this.#store = store;
    this.#prefix = `openvibe.change.${scope}.`;
    this.#now = now;
  }
  #key({ kind, id }: Pick<Change, 'kind' | 'id'>): string {
    return `${this.#prefix}${kind}:${id}`;
  }
  /** Returns false if the browser rejected the write. */
  put(change: Change): boolean {
    return this.#store.set(this.#key(change), JSON.stringify({ ...change, at: this.#now() }));
  }
  get<K extends Kind>(kind: K, id: string): Values[K] | undefined {
    const found = readJson(this.#store, this.#key({ kind, id }), isChange);
    return found?.kind === kind ? (found.value as Values[K]) : undefined;
  }
  /** In the order in which they were made. */
  all(): StoredChange[] {
    const all = this.#store.keys(this.#prefix).flatMap((key) => {
      const change = readJson(this.#store, key, isChange);
      if (change && change.at > this.#now() - WAIT_MS) return [change];
      this.#store.remove(key);
      return [];
    });
    return all.sort((a, b) => a.at - b.at);
  }
  /** Removes a change that was sent, unless it was replaced in the meantime. */
  sent(change: StoredChange): void {
    const key = this.#key(change);
    if (this.#store.get(key) === JSON.stringify(change)) this.#store.remove(key);
  }
}
