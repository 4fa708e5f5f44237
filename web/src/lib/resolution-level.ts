import { readJson, type KeyValueStore } from './storage';

/** Expansion level of a resolution message: 0 headline, 1 conclusion and points, 2 everything. */
export type Level = 0 | 1 | 2;
const MAX = 300;
const isLevels = (x: unknown): x is Record<string, Level> =>
  typeof x === 'object' && x !== null && Object.values(x).every((v) => v === 0 || v === 1 || v === 2);
const keyOf = (user: string) => `openvibe.cards.${user}`;

/** The user's choice for each resolution message, stored on the device; null if there is none. */
export const levelOf = (store: KeyValueStore, user: string, card: string): Level | null =>
  readJson(store, keyOf(user), isLevels)?.[card] ?? null;

export function keepLevel(store: KeyValueStore, user: string, card: string, level: Level): void {
  const others = Object.entries(readJson(store, keyOf(user), isLevels) ?? {}).filter(([id]) => id !== card);
  const all = [...others, [card, level] as const].slice(-MAX); // the latest choice goes last
  store.set(keyOf(user), JSON.stringify(Object.fromEntries(all)));
}
