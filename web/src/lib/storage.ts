/** What is kept on the device. Private windows may refuse; then it lives as long as the page. */
export interface Shelf {
  get(key: string): string | null;
  set(key: string, value: string): void;
  remove(key: string): void;
}

export const device: Shelf = {
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
    } catch {
      // Full or refused: the page itself still holds it.
    }
  },
  remove(key) {
    try {
      localStorage.removeItem(key);
    } catch {
      // As above.
    }
  },
};

export function readJson<T>(shelf: Shelf, key: string, isT: (x: unknown) => x is T): T | null {
  const text = shelf.get(key);
  if (!text) return null;
  try {
    const value: unknown = JSON.parse(text);
    return isT(value) ? value : null;
  } catch {
    return null;
  }
}
