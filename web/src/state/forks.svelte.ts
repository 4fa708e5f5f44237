import { SvelteMap } from 'svelte/reactivity';
import type { Fork, Message } from '../api/types';

/** Contract: at most so many active ones in a thread. */
export const ACTIVE_MAX = 7;
const older = (a: Fork, b: Fork) =>
  a.created_at < b.created_at ? -1 : a.created_at > b.created_at ? 1 : a.id < b.id ? -1 : 1;

/** What is known of dives: the open ones from the snapshot, others as lists and panels asked for them. Not their messages. */
export class Forks {
  readonly map = new SvelteMap<string, Fork>();
  /** Counts what events said, so that an answer asked for before them can be told from one after. */
  #clock = 0;
  #heard = new Map<string, number>();

  readonly #byThread = $derived(grouped(this.map.values(), (f) => f.thread_id));
  readonly #openByMessage = $derived(grouped([...this.map.values()].filter(isOpen), (f) => f.message_id));

  /** From a snapshot: what was known before may have missed events. */
  load(open: readonly Fork[]): void {
    this.map.clear();
    this.#heard.clear();
    for (const f of open) this.map.set(f.id, f);
  }
  get(id: string): Fork | undefined {
    return this.map.get(id);
  }
  /** Take it before asking, hand it in with the answer. */
  get moment(): number {
    return this.#clock;
  }
  /** From an answer. What events said since it was asked for is newer; the count that is here stays, as an answer does not say how many events it knew. */
  learn(fork: Fork, moment: number): void {
    if ((this.#heard.get(fork.id) ?? 0) > moment) return;
    const old = this.map.get(fork.id);
    this.map.set(fork.id, old ? { ...fork, message_count: old.message_count } : fork);
  }
  /** From an event: the truth of its time. */
  put(fork: Fork): void {
    this.#heard.set(fork.id, ++this.#clock);
    this.map.set(fork.id, fork);
  }
  /** `message.created` implies the dive's count. */
  created(m: Message): void {
    const f = m.fork_id ? this.map.get(m.fork_id) : undefined;
    if (f) this.put({ ...f, message_count: f.message_count + 1 });
  }

  /** Every known one of a thread, oldest first. */
  inThread(thread: string): readonly Fork[] {
    return this.#byThread.get(thread) ?? [];
  }
  openIn(thread: string): readonly Fork[] {
    return this.inThread(thread).filter(isOpen);
  }
  /** The open ones that began at this message. */
  openAt(message: string): readonly Fork[] {
    return this.#openByMessage.get(message) ?? [];
  }
}

export const isOpen = (f: Fork): boolean => f.status === 'active';

function grouped(forks: Iterable<Fork>, by: (f: Fork) => string): ReadonlyMap<string, Fork[]> {
  const groups = new Map<string, Fork[]>();
  for (const f of [...forks].sort(older)) {
    const group = groups.get(by(f));
    if (group) group.push(f);
    else groups.set(by(f), [f]);
  }
  return groups;
}
