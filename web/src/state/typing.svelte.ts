import { SvelteMap } from 'svelte/reactivity';

const SHOWN_MS = 5000;
const SAY_EVERY_MS = 2500;

/** Typing indicators of threads and dives, and throttled frames about the user's own typing. */
export class Typing {
  readonly #who = new SvelteMap<string, ReadonlyMap<string, number>>();
  #said = new Map<string, number>();
  #timers = new Set<ReturnType<typeof setTimeout>>();
  #tell: (place: string) => void;
  #now: () => number;

  constructor(tell: (place: string) => void, now: () => number = Date.now) {
    this.#tell = tell;
    this.#now = now;
  }

  heard(place: string, user: string): void {
    const until = this.#now() + SHOWN_MS;
    this.#who.set(place, new Map(this.#who.get(place)).set(user, until));
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      this.#expire(place);
    }, SHOWN_MS + 50);
    this.#timers.add(timer);
  }
  /** A message from them arrived: they stopped typing. */
  stopped(place: string, user: string): void {
    const there = this.#who.get(place);
    if (!there?.has(user)) return;
    const left = new Map(there);
    left.delete(user);
    this.#who.set(place, left);
  }
  #expire(place: string): void {
    const left = new Map([...(this.#who.get(place) ?? [])].filter(([, until]) => until > this.#now()));
    if (left.size) this.#who.set(place, left);
    else this.#who.delete(place);
  }
  in(place: string): string[] {
    return [...(this.#who.get(place)?.keys() ?? [])];
  }
  say(place: string): void {
    const now = this.#now();
    if (now - (this.#said.get(place) ?? -Infinity) < SAY_EVERY_MS) return;
    this.#said.set(place, now);
    this.#tell(place);
  }
  /** After sending, the next keystroke sends a frame again. */
  sent(place: string): void {
    this.#said.delete(place);
  }
  dispose(): void {
    for (const t of this.#timers) clearTimeout(t);
  }
}
