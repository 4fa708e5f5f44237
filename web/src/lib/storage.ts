/**
 * Key of the user who is signed in to this browser, according to its windows; empty after signing out. Not
 * a credential. When the server is unavailable, it determines whose work is shown.
 */
export const LAST_USER = 'openvibe.user';

/** Device storage. Private windows may reject writes; then values live as long as the page. */
export interface KeyValueStore {
  get(key: string): string | null;
  /** Returns false if the browser rejected the write. */
  set(key: string, value: string): boolean;
  remove(key: string): void;
  /** Stored keys that start with `prefix`, in no particular order. */
  keys(prefix: string): string[];
  /** Calls `onchange` with the key that another window set or removed. Returns a function that stops it. */
  watch(onchange: (key: string) => void): () => void;
}

export const device: KeyValueStore = {
  get(key) {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  },
  set(key, value) {
    try {
      localStorage.setItem(key, value);
      return true;
    } catch {
      return false; // Full or rejected: the page itself still has it.
    }
  },
  remove(key) {
    try {
      localStorage.removeItem(key);
    } catch {
      // The browser rejects access to the storage.
    }
  },
  keys(prefix) {
    try {
      return Object.keys(localStorage).filter((key) => key.startsWith(prefix));
    } catch {
      return [];
    }
  },
  watch(onchange) {
    const onstorage = (e: StorageEvent) => {
      if (e.key !== null) onchange(e.key);
    };
    addEventListener('storage', onstorage);
    return () => removeEventListener('storage', onstorage);
  },
};

export function readJson<T>(store: KeyValueStore, key: string, isT: (x: unknown) => x is T): T | null {
  const text = store.get(key);
  if (!text) return null;
  try {
    const value: unknown = JSON.parse(text);
    return isT(value) ? value : null;
  } catch {
    return null;
  }
}
