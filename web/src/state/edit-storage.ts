import type { FullEdit } from '../lib/resolution';
import { readJson, type KeyValueStore } from '../lib/storage';

/** Unsaved edits, stored on the device. */
export interface StoredEdit {
  base: FullEdit;
  mine: FullEdit;
}
export interface EditStorage {
  get(): StoredEdit | null;
  set(text: StoredEdit): void;
  /** Removes what this window stored or read; later writes of other windows stay. */
  clear(): void;
  /** Calls `onchange` with edits that another window stored. Returns a function that stops it. */
  watch(onchange: (text: StoredEdit) => void): () => void;
}
const isStoredEdit = (x: unknown): x is StoredEdit =>
  typeof x === 'object' && x !== null && 'base' in x && 'mine' in x && typeof x.mine === 'object';

export function storedEditIn(store: KeyValueStore, key: string): EditStorage {
  let known: string | null = null;
  const get = () => {
    known = store.get(key);
    return readJson(store, key, isStoredEdit);
  };
  return {
    get,
    set: (text) => {
      known = JSON.stringify(text);
      store.set(key, known);
    },
    clear: () => {
      if (store.get(key) === known) store.remove(key);
    },
    watch: (onchange) =>
      store.watch((changed) => {
        const text = changed === key ? readJson(store, key, isStoredEdit) : null;
        if (text) onchange(text);
      }),
  };
}
