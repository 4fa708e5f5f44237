import type { Account } from '../api/types';
import { readJson, type KeyValueStore } from '../lib/storage';

/** Copies of workspaces on this device, without their content, which is in IndexedDB: one entry for each copy, `USER.WS`. */
const KEPT = 'openvibe.kept.';
/** `off` if people do not want copies in this browser. */
const KEEP = 'openvibe.keep';
/** A copy is erased after this time without contact to the server. */
const KEPT_FOR_MS = 14 * 86_400_000;

interface Kept {
  account: Account;
  slug: string;
  /** Time of the last contact, in ms since 1970. */
  at: number;
}
const isKept = (x: unknown): x is Kept =>
  typeof x === 'object' && x !== null && 'account' in x && 'slug' in x && 'at' in x;

export const databaseOf = (scope: string): string => `openvibe.${scope}`;
export const keepsMessages = (store: KeyValueStore): boolean => store.get(KEEP) !== 'off';
export function setKeepsMessages(store: KeyValueStore, keeps: boolean): void {
  if (keeps) return store.remove(KEEP);
  store.set(KEEP, 'off');
  eraseCopies(store);
}
/** Records that a copy exists, or that the server answered. Returns false if the browser rejected it. */
export const setKept = (store: KeyValueStore, scope: string, kept: Kept): boolean =>
  store.set(KEPT + scope, JSON.stringify(kept));
export const isCopied = (store: KeyValueStore, scope: string): boolean => store.get(KEPT + scope) !== null;
/** Checks whether a copy is too old to be kept. `at`: time of the last contact, in ms since 1970. */
export const isExpired = (at: number, now: number): boolean => at < now - KEPT_FOR_MS;
/** Calls `onswitch` when another window turned copies on or off, and `onerased` when it erased this one. Returns a function that stops it. */
export const watchKept = (
  store: KeyValueStore,
  scope: string,
  onswitch: () => void,
  onerased: () => void,
): (() => void) =>
  store.watch((key) => {
    if (key === KEEP) onswitch();
    else if (key === KEPT + scope && !isCopied(store, scope)) onerased();
  });

/**
 * The account of a user with a copy of the workspace in this path, as of the newest copy; null if there is none. Expired copies are
 * erased.
 */
export function keptAccount(
  store: KeyValueStore,
  user: string,
  path: string,
  now = Date.now(),
): Account | null {
  const slug = path.split('/')[1];
  const isAny = !slug || slug === 'share';
  let isFound = false;
  let newest: Kept | null = null;
  for (const key of user ? store.keys(`${KEPT}${user}.`) : []) {
    const kept = readJson(store, key, isKept);
    if (!kept || isExpired(kept.at, now)) {
      eraseCopy(store, key.slice(KEPT.length));
      continue;
    }
    isFound ||= isAny || kept.slug === slug;
    if (!newest || kept.at > newest.at) newest = kept;
  }
  return isFound && newest ? newest.account : null;
}
/** Erases all copies in this browser. */
export function eraseCopies(store: KeyValueStore): void {
  for (const key of store.keys(KEPT)) eraseCopy(store, key.slice(KEPT.length));
}
/** Erases one copy, `USER.WS`, also if only its database is left. */
export function eraseCopy(store: KeyValueStore, scope: string): void {
  store.remove(KEPT + scope); // first, because it stops the window that writes
  try {
    globalThis.indexedDB?.deleteDatabase(databaseOf(scope));
  } catch {
    // The browser rejects access to the storage, so that there is nothing to erase.
  }
}
/** Erases copies of other users, and of workspaces that the user no longer belongs to. */
export function eraseOthers(store: KeyValueStore, account: Account): void {
  const own = new Set(account.workspaces.map((w) => `${account.user.id}.${w.id}`));
  for (const key of store.keys(KEPT))
    if (!own.has(key.slice(KEPT.length))) eraseCopy(store, key.slice(KEPT.length));
}
