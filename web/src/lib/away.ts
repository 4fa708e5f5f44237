import type { KeyValueStore } from './storage';

const AWAY_MS = 4 * 3_600_000;

/** True if the user was last here at least 4 hours ago; false on a first visit. */
export function wasAway(store: Pick<KeyValueStore, 'get'>, key: string, now = Date.now()): boolean {
  const at = Number(store.get(key));
  return at > 0 && now - at >= AWAY_MS;
}
