import { SvelteMap } from 'svelte/reactivity';

const SHOWN_MS = 5000;
const REPORT_EVERY_MS = 2500;

/** Typing indicators of threads and forks, and throttled frames about the user's own typing. */
export class Typing {
  readonly #who = new SvelteMap<string, ReadonlyMap<string, number>>();
  #reported = new Map<string, number>();
  #timers = new Set<ReturnType<typeof setTimeout>>();
  #send: (place: string) => void;
  #now: () => number;

  constructor(send: (place: string) => void, now: () => number = Date.now) {
    this.#send = send;
    this.#now = now;
  }

  started(place: string, user: string): void {
    const until = this.#now() + SHOWN_MS;
    this.#who.set(place, new Map(this.#who.get(place)).set(user, until));
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      this.#expire(place);
    }, SHOWN_MS + 50);
    this.#timers.add(timer);
  }
  /** Called when a message from the user has arrived, so that the user is no longer typing. */
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
  report(place: string): void {
    const now = this.#now();
    if (now - (this.#reported.get(place) ?? -Infinity) < REPORT_EVERY_MS) return;
    this.#reported.set(place, now);
    this.#send(place);
  }
  /** Called when the user has sent a message, so that the next keystroke sends a frame again. */
  sent(place: string): void {
    this.#reported.delete(place);
  }
  dispose(): void {
    for (const t of this.#timers) clearTimeout(t);
  }
}
