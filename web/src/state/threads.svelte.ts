import { SvelteMap } from 'svelte/reactivity';
import type { Follow, Message, Thread } from '../api/types';
import { counts, mentionsMe } from '../lib/messages';

/** Maximum number of threads, in addition to those on screen. */
const SPARE_MAX = 400;

/**
 * Cache of threads that were listed, opened, or mentioned in events, without their messages. Threads in a
 * list, an open conversation, or a panel stay; of the others, the least recently changed are dropped.
 */
export class Threads {
  readonly map = new SvelteMap<string, Thread>();
  /** Keys in order of their last change. */
  #changed = new Set<string>();
  #shown: () => Set<string>;
  #pruneAt = SPARE_MAX;
  /** Counts events, to tell a response requested before an event from one requested after. */
  #version = 0;
  #seenVersions = new Map<string, number>();
  #muted = new Set<string>();

  /** `shown` returns the IDs that must stay. */
  constructor(shown: () => Set<string> = () => new Set()) {
    this.#shown = shown;
  }

  clear(): void {
    this.#changed.clear();
    this.map.clear();
    this.#seenVersions.clear();
  }
  /** Read the version before a request, and pass it with the response. */
  get version(): number {
    return this.#version;
  }
  /**
   * Stores a thread from a response, including the user's own fields, unless events since the request are
   * newer.
   */
  learn(thread: Thread, version: number): void {
    const old = this.map.get(thread.id);
    if (!old || (this.#seenVersions.get(thread.id) ?? 0) <= version) return this.#merge(thread);
    if (thread.last_seq < old.last_seq) return;
    const { unread_count, mention_count, active_tasks, root_message, last_message, follow } = thread;
    this.#merge({ ...old, unread_count, mention_count, active_tasks, root_message, last_message, follow });
  }
  /** Stores a thread from an event, which omits the user's own fields: its state at that event. */
  put(thread: Thread): void {
    this.#seenVersions.set(thread.id, ++this.#version);
    this.#merge(thread);
  }
  #merge(thread: Thread): void {
    const old = this.map.get(thread.id);
    const own = {
      unread_count: 0,
      mention_count: 0,
      active_tasks: [],
      root_message: null,
      last_message: null,
    };
    // A list requested before the newest event may be older than this.
    if (old && thread.last_seq < old.last_seq) {
      this.map.set(thread.id, { ...own, ...thread, ...old, title: thread.title, status: thread.status });
      return;
    }
    this.map.set(thread.id, { ...own, ...old, ...thread });
    this.#changed.delete(thread.id);
    this.#changed.add(thread.id);
    if (this.map.size > this.#pruneAt) this.#prune();
  }
  patch(id: string, change: Partial<Thread>): void {
    const t = this.map.get(id);
    if (t) this.map.set(id, { ...t, ...change });
  }

  /** Updates the thread's counters after `message.created`; a notice does not change any. */
  created(m: Message, me: string): void {
    const t = this.map.get(m.thread_id);
    if (!t || m.fork_id || m.kind === 'notice') return;
    if (m.id === t.root_message_id || !t.root_message_id) {
      this.map.set(t.id, {
        ...t,
        root_message_id: m.id,
        root_message: m,
        last_message: t.last_message ?? m,
        last_seq: Math.max(t.last_seq, m.seq),
        participants: withAuthor(t, m),
      });
      if (m.seq <= t.last_seq) return;
      if (counts(m, me)) this.#unread(t.id, mentionsMe(m, me));
      return;
    }
    if (m.seq <= t.last_seq) return;
    this.map.set(t.id, {
      ...t,
      last_seq: m.seq,
      last_message: m,
      last_activity_at: m.created_at,
      reply_count: t.reply_count + 1,
      participants: withAuthor(t, m),
    });
    if (counts(m, me)) this.#unread(t.id, mentionsMe(m, me));
  }
  changed(m: Message): void {
    const t = this.map.get(m.thread_id);
    if (!t) return;
    if (t.root_message?.id === m.id) this.patch(t.id, { root_message: m });
    if (t.last_message?.id === m.id) this.patch(t.id, { last_message: m });
  }
  /** True if messages in the thread do not count as unread. Mentions still do. */
  isMuted(id: string): boolean {
    return this.#muted.has(id);
  }
  /** Sets the IDs of all muted threads, including those that are not loaded. */
  setMuted(ids: string[]): void {
    this.#muted = new Set(ids);
  }
  get muted(): readonly string[] {
    return [...this.#muted];
  }
  setFollow(id: string, follow: Follow): void {
    if (follow.level === 'none') this.#muted.add(id);
    else this.#muted.delete(id);
    if (this.map.has(id)) this.patch(id, { follow });
  }
  /** Removes a thread that was deleted. */
  remove(id: string): void {
    this.map.delete(id);
    this.#seenVersions.delete(id);
    this.#changed.delete(id);
    this.#muted.delete(id);
  }
  #unread(id: string, mention: boolean): void {
    const t = this.map.get(id)!;
    this.patch(id, {
      unread_count: (t.unread_count ?? 0) + (this.isMuted(id) ? 0 : 1),
      mention_count: (t.mention_count ?? 0) + (mention ? 1 : 0),
    });
  }
  #prune(): void {
    const shown = this.#shown();
    const spare = [...this.#changed].filter((id) => !shown.has(id));
    for (const id of spare.slice(0, Math.max(0, spare.length - SPARE_MAX * 0.75))) {
      this.map.delete(id);
      this.#seenVersions.delete(id);
      this.#changed.delete(id);
    }
    this.#pruneAt = this.map.size + SPARE_MAX / 4;
  }
  inChannel(channel: string): Thread[] {
    return [...this.map.values()]
      .filter((t) => t.channel_id === channel)
      .sort((a, b) =>
        a.last_activity_at < b.last_activity_at ? 1 : a.last_activity_at > b.last_activity_at ? -1 : 0,
      );
  }
}

function withAuthor(t: Thread, m: Message): Thread['participants'] {
  const { type, id, name } = m.author;
  if (type === 'system' || !id || t.participants.some((p) => p.id === id)) return t.participants;
  return [...t.participants, { type, id, name }];
}
