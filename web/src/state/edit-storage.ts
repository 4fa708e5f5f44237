import type { FullEdit } from '../lib/resolution';
import { readJson, type KeyValueStore } from '../lib/storage';

/** Unsaved edits, stored on the device. */
export interface EditStorage<T> {
  get(): T | null;
  /** Returns false if the browser rejected the write. */
  set(edit: T): boolean;
  /** Removes the edits that this window stored or read; later writes of other windows stay. */
  clear(): void;
  /** Calls `onchange` with edits that another window stored, or null. Returns a function that stops it. */
  watch(onchange: (edit: T | null) => void): () => void;
}

/** Unsaved edits of a resolution. */
export interface StoredEdit {
  base: FullEdit;
  mine: FullEdit;
}
export const isStoredEdit = (x: unknown): x is StoredEdit =>
  typeof x === 'object' && x !== null && 'base' in x && 'mine' in x && typeof x.mine === 'object';

export function storedEditIn<T>(
  store: KeyValueStore,
  key: string,
  isT: (x: unknown) => x is T,
): EditStorage<T> {
  let known: string | null = null;
  return {
    get: () => {
      known = store.get(key);
      return readJson(store, key, isT);
    },
    set: (edit) => {
      const text = JSON.stringify(edit);
      if (!store.set(key, text)) return false;
      known = text;
      return true;
    },
    clear: () => {
      if (store.get(key) === known) store.remove(key);
    },
    watch: (onchange) => store.watch((changed) => changed === key && onchange(readJson(store, key, isT))),
  };
}
