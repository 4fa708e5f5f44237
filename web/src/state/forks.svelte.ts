import { SvelteMap } from 'svelte/reactivity';
import type { Fork, ForkOwn, Message } from '../api/types';
import { countsInPlace } from '../lib/messages';

/** Maximum number of active forks in a thread, set by the server. */
export const ACTIVE_MAX = 7;
const older = (a: Fork, b: Fork) =>
  a.created_at < b.created_at ? -1 : a.created_at > b.created_at ? 1 : a.id < b.id ? -1 : 1;

/** Known forks, without their messages: open ones from the snapshot, others from lists and panels. */
export class Forks {
  readonly map = new SvelteMap<string, Fork>();
  /** Counts events, to tell a response requested before an event from one requested after. */
  #version = 0;
  #seenVersions = new Map<string, number>();

  readonly #byThread = $derived(grouped(this.map.values(), (f) => f.thread_id));
  readonly #openByMessage = $derived(grouped([...this.map.values()].filter(isOpen), (f) => f.message_id));

  /** Loads a snapshot; forks that were known before may have missed events. */
  load(open: readonly Fork[]): void {
    this.map.clear();
    this.#seenVersions.clear();
    for (const f of open) this.map.set(f.id, f);
  }
  get(id: string): Fork | undefined {
    return this.map.get(id);
  }
  /** Read the version before a request, and pass it with the response. */
  get version(): number {
    return this.#version;
  }
  /**
   * Stores a fork from a response, unless events since the request are newer. The counts are kept, because a
   * response does not show which events it includes.
   */
  learn(fork: Fork, version: number): void {
    if ((this.#seenVersions.get(fork.id) ?? 0) > version) return;
    const old = this.map.get(fork.id);
    this.map.set(fork.id, old ? { ...old, ...fork, message_count: old.message_count } : fork);
  }
  /** Stores a fork from an event: its state at that event. */
  put(fork: Fork): void {
    this.#seenVersions.set(fork.id, ++this.#version);
    this.map.set(fork.id, { ...this.map.get(fork.id), ...fork });
  }
  /** Changes the user's own fields. */
  patch(id: string, change: Partial<ForkOwn>): void {
    const f = this.map.get(id);
    if (f) this.map.set(id, { ...f, ...change });
  }
  /** Counts the message of a `message.created` event in its fork; it is unread for followers. */
  created(m: Message, me: string): void {
    const f = m.fork_id ? this.map.get(m.fork_id) : undefined;
    if (!f) return;
    const isUnread = f.follow?.level === 'all' && countsInPlace(m, me);
    const unread_count = (f.unread_count ?? 0) + (isUnread ? 1 : 0);
    this.put({ ...f, message_count: f.message_count + 1, unread_count });
  }

  /** Known forks of a thread, oldest first. */
  inThread(thread: string): readonly Fork[] {
    return this.#byThread.get(thread) ?? [];
  }
  openIn(thread: string): readonly Fork[] {
    return this.inThread(thread).filter(isOpen);
  }
  /** Open forks from this message. */
  openAt(message: string): readonly Fork[] {
    return this.#openByMessage.get(message) ?? [];
  }
}

export const isOpen = (f: Pick<Fork, 'status'>): boolean => f.status === 'active';

function grouped(forks: Iterable<Fork>, by: (f: Fork) => string): ReadonlyMap<string, Fork[]> {
  const groups = new Map<string, Fork[]>();
  for (const f of [...forks].sort(older)) {
    const group = groups.get(by(f));
    if (group) group.push(f);
    else groups.set(by(f), [f]);
  }
  return groups;
}
