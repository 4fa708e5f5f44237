import type { Api } from '../api/api';
import type { Channel, Follow, Message } from '../api/types';
import { UNREAD_MAX } from '../lib/numbers';
import type { Channels } from './channels.svelte';
import type { Reading, UnreadCounts } from './reading.svelte';
import type { Threads } from './threads.svelte';

/** Minimum interval between reloads of snapshots and threads. */
const LEARN_AFTER_MS = 500;
/** Maximum additional delay after an event that changes the counts of many people. */
const SPREAD_MS = 2000;

export interface ReadsDeps {
  /** Reloads the counts of all channels. */
  recount(): void;
  /** Read position of a thread in memory. */
  reading(thread: string): Reading | undefined;
}
/** Read markers of one thread: one request at a time; meanwhile, only the newest marker waits. */
interface Marking {
  next: number | null;
  done: Promise<UnreadCounts | null>;
}

/** Read markers: sent to the server, and applied to the counts of threads and channels. */
export class Reads {
  /** Counts changed follow levels. */
  follows = $state(0);
  #api: Api;
  #threads: Threads;
  #channels: Channels;
  #deps: ReadsDeps;
  #marking = new Map<string, Marking>();
  /**
   * The last two markers of this window by thread, until their frames arrive, which may be after
   * the response.
   */
  #mine = new Map<string, number[]>();
  /**
   * True if the counts come from a snapshot that may include messages that are on screen but not marked yet.
   */
  #unsettled = false;
  #stale = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(api: Api, threads: Threads, channels: Channels, deps: ReadsDeps) {
    this.#api = api;
    this.#threads = threads;
    this.#channels = channels;
    this.#deps = deps;
  }
  dispose(): void {
    clearTimeout(this.#timer ?? undefined);
  }

  /**
   * Moves the read marker. Returns the unread counts after the newest marker; null if the server cannot be
   * reached or the thread no longer exists.
   */
  mark(thread: string, seq: number): Promise<UnreadCounts | null> {
    const running = this.#marking.get(thread);
    if (running) {
      running.next = seq;
      return running.done;
    }
    const marking: Marking = { next: seq, done: Promise.resolve(null) };
    this.#marking.set(thread, marking);
    marking.done = this.#run(thread, marking);
    return marking.done;
  }
  async #run(thread: string, marking: Marking): Promise<UnreadCounts | null> {
    let now: UnreadCounts | null = null;
    while (marking.next !== null) {
      const seq = marking.next;
      marking.next = null;
      now = await this.#send(thread, seq);
    }
    this.#marking.delete(thread);
    return now;
  }
  async #send(thread: string, seq: number): Promise<UnreadCounts | null> {
    this.#mine.set(thread, [...(this.#mine.get(thread) ?? []), seq].slice(-2));
    const before = this.#threads.map.get(thread)?.last_seq;
    try {
      const now = await this.#api.markRead(thread, seq);
      this.#set(thread, now.unread_count, now.mention_count);
      // The counts in the response may not include a message that arrived in the meantime.
      if (this.#threads.map.get(thread)?.last_seq !== before) this.#learnLater(thread);
      if (this.#unsettled) this.#learnLater();
      this.#unsettled = false;
      return now;
    } catch {
      return null; // the list tries again while the message is on screen
    }
  }
  /**
   * Marks whole threads as read up to `seq`. Returns false if the server could not be reached for one of
   * them.
   */
  async markThreads(threads: readonly string[], seq: number): Promise<boolean> {
    const counts = await Promise.all(threads.map((id) => this.mark(id, seq)));
    for (const [n, id] of threads.entries()) if (counts[n]) this.#deps.reading(id)?.readElsewhere(seq);
    this.#learnLater();
    return counts.every((found) => found !== null);
  }
  async markChannel(channel: Channel): Promise<void> {
    const { read_seq } = await this.#api.markChannelRead(channel.id);
    this.readChannel(channel.id, read_seq ?? 0);
  }
  /** Called when a whole channel was marked as read up to `seq`, here or in another window. */
  readChannel(channel: string, seq: number): void {
    const { unread_count = 0, mention_count = 0 } = this.#channels.map.get(channel) ?? {};
    this.#channels.shift(channel, -unread_count, -mention_count);
    this.#learnLater();
    for (const t of this.#threads.inChannel(channel)) {
      const reading = this.#deps.reading(t.id);
      if (reading && reading.readSeq < seq) reading.readElsewhere(seq);
      if (t.last_seq > seq) this.#learnLater(t.id);
      else this.#threads.patch(t.id, { unread_count: 0, mention_count: 0 });
    }
  }
  /** Makes the next marker load the counts again. */
  unsettle(): void {
    this.#unsettled = true;
  }
  /** Sets the counts of a thread, and adjusts those of its channel. */
  #set(thread: string, unread: number, mentions: number): void {
    const t = this.#threads.map.get(thread);
    if (!t) return;
    this.#threads.patch(thread, { unread_count: unread, mention_count: mentions });
    const { unread_count = 0, mention_count = 0 } = this.#channels.map.get(t.channel_id) ?? {};
    // A count at its limit is not exact, so nothing can be subtracted from it.
    if (Math.max(unread_count, mention_count) >= UNREAD_MAX) return this.#learnLater();
    this.#channels.shift(t.channel_id, unread - (t.unread_count ?? 0), mentions - (t.mention_count ?? 0));
  }
  /**
   * Applies a moved marker. This window's own markers are known; for those of another window, only the server
   * knows the counts.
   */
  marked(thread: string, seq: number): void {
    const mine = this.#mine.get(thread) ?? [];
    const at = mine.indexOf(seq);
    if (at >= 0) return void this.#mine.set(thread, mine.slice(at + 1));
    this.#deps.reading(thread)?.readElsewhere(seq);
    this.unsettle();
    this.#learnLater(thread);
  }
  /** Applies a changed follow level, set here or in another window: it changes what counts as unread. */
  followed(thread: string, follow: Follow): void {
    this.#threads.setFollow(thread, follow);
    this.follows++;
    this.unsettle();
    this.#learnLater(thread);
  }
  /**
   * Called when a message of another person was deleted or edited. If it was unread, it may no longer count or
   * may mention other people; only the server knows.
   */
  changed(m: Message): void {
    const thread = this.#threads.map.get(m.thread_id);
    const { unread_count = 0, mention_count = 0 } = thread ?? this.#channels.map.get(m.channel_id) ?? {};
    if (unread_count || mention_count) this.#learnLater(m.thread_id, Math.random() * SPREAD_MS);
  }
  /** Reloads the counts soon, and the thread if it is known; many calls are combined. */
  #learnLater(thread?: string, spread = 0): void {
    if (thread) this.#stale.add(thread);
    this.#timer ??= setTimeout(() => this.#learn(), LEARN_AFTER_MS + spread);
  }
  #learn(): void {
    this.#timer = null;
    const stale = [...this.#stale].filter((id) => this.#threads.map.has(id));
    this.#stale.clear();
    this.#deps.recount();
    const { version } = this.#threads;
    for (const id of stale)
      this.#api.thread(id).then(
        (t) => this.#threads.learn(t, version),
        () => undefined, // the next load of the list includes the thread
      );
  }
}
