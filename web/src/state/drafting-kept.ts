import type { FullEdit } from '../lib/resolution';
import { readJson, type Shelf } from '../lib/storage';

/** Typed and not yet with the server, on the device. */
export interface KeptText {
  base: FullEdit;
  mine: FullEdit;
}
export interface Kept {
  get(): KeptText | null;
  set(text: KeptText): void;
  clear(): void;
}
const isKept = (x: unknown): x is KeptText =>
  typeof x === 'object' && x !== null && 'base' in x && 'mine' in x && typeof x.mine === 'object';

export const keptOn = (shelf: Shelf, key: string): Kept => ({
  get: () => readJson(shelf, key, isKept),
  set: (text) => shelf.set(key, JSON.stringify(text)),
  clear: () => shelf.remove(key),
});
