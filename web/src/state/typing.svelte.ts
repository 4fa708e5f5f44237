import { SvelteMap } from 'svelte/reactivity';

const SHOWN_MS = 5000;
const SAY_EVERY_MS = 2500;

/** Who is typing where; and telling others that I am, not too often. */
export class Typing {
  readonly #who = new SvelteMap<string, ReadonlyMap<string, number>>();
  #said = new Map<string, number>();
  #timers = new Set<ReturnType<typeof setTimeout>>();
  #tell: (thread: string) => void;
  #now: () => number;

  constructor(tell: (thread: string) => void, now: () => number = Date.now) {
    this.#tell = tell;
    this.#now = now;
  }

  heard(thread: string, user: string): void {
    const until = this.#now() + SHOWN_MS;
    this.#who.set(thread, new Map(this.#who.get(thread)).set(user, until));
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      this.#expire(thread);
    }, SHOWN_MS + 50);
    this.#timers.add(timer);
  }
  /** A message came from them: they are done. */
  stopped(thread: string, user: string): void {
    const there = this.#who.get(thread);
    if (!there?.has(user)) return;
    const left = new Map(there);
    left.delete(user);
    this.#who.set(thread, left);
  }
  #expire(thread: string): void {
    const left = new Map([...(this.#who.get(thread) ?? [])].filter(([, until]) => until > this.#now()));
    if (left.size) this.#who.set(thread, left);
    else this.#who.delete(thread);
  }
  in(thread: string): string[] {
    return [...(this.#who.get(thread)?.keys() ?? [])];
  }
  say(thread: string): void {
    const now = this.#now();
    if (now - (this.#said.get(thread) ?? -Infinity) < SAY_EVERY_MS) return;
    this.#said.set(thread, now);
    this.#tell(thread);
  }
  /** After sending, the next letter is news again. */
  sent(thread: string): void {
    this.#said.delete(thread);
  }
  dispose(): void {
    for (const t of this.#timers) clearTimeout(t);
  }
}
