import { readJson, type KeyValueStore } from '../lib/storage';

/** Threads with the day of their suggestion. */
type Days = Record<string, string>;
const isDays = (x: unknown): x is Days =>
  typeof x === 'object' && x !== null && Object.values(x).every((day) => typeof day === 'string');

/** The local day: "2026-11-23". */
const dayOf = (now: Date): string =>
  [now.getFullYear(), now.getMonth() + 1, now.getDate()].map((n) => String(n).padStart(2, '0')).join('-');

/**
 * Days on which this device made a suggestion to a user, at most one per thread. Only those of today are
 * kept.
 */
export class SuggestionDays {
  #store: KeyValueStore;
  #key: string;
  constructor(store: KeyValueStore, user: string) {
    this.#store = store;
    this.#key = `openvibe.suggested.${user}`;
  }
  /** Records a suggestion in a thread; false if the device already made one today. */
  claim(thread: string, now = new Date()): boolean {
    const today = dayOf(now);
    const known = readJson(this.#store, this.#key, isDays) ?? {};
    if (known[thread] === today) return false;
    const kept = Object.entries(known).filter(([, day]) => day === today);
    this.#store.set(this.#key, JSON.stringify({ ...Object.fromEntries(kept), [thread]: today }));
    return true;
  }
}
