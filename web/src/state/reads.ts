import type { Api } from '../api/api';
import type { Channel, Follow } from '../api/types';
import { UNREAD_MAX } from '../lib/numbers';
import type { Channels } from './channels.svelte';
import type { UnreadCounts } from './reading.svelte';
import type { Threads } from './threads.svelte';

/** What has been read: told to the server, and kept in the counts of threads and channels. */
export class Reads {
  #api: Api;
  #threads: Threads;
  #channels: Channels;
  #recount: () => void;
  /** The mark that this window set last, by thread. */
  #mine = new Map<string, number>();
  /** Counts were taken from a snapshot that may have counted what is on screen but not marked yet. */
  #unsettled = false;

  constructor(api: Api, threads: Threads, channels: Channels, recount: () => void) {
    this.#api = api;
    this.#threads = threads;
    this.#channels = channels;
    this.#recount = recount;
  }

  /** What is unread then; null: the server cannot be reached, or the thread is gone. */
  async mark(thread: string, seq: number): Promise<UnreadCounts | null> {
    this.#mine.set(thread, seq);
    try {
      const now = await this.#api.markRead(thread, seq);
      this.#set(thread, now.unread_count, now.mention_count);
      if (this.#unsettled) this.#recount();
      this.#unsettled = false;
      return now;
    } catch {
      return null; // the next message seen marks again
    }
  }
  async markChannel(channel: Channel): Promise<void> {
    await this.#api.markChannelRead(channel.id);
    const { unread_count = 0, mention_count = 0 } = this.#channels.map.get(channel.id) ?? {};
    this.#channels.shift(channel.id, -unread_count, -mention_count);
    for (const t of this.#threads.inChannel(channel.id)) {
      this.#threads.patch(t.id, { unread_count: 0, mention_count: 0 });
    }
  }
  /** Look once more after the next mark. */
  unsettle(): void {
    this.#unsettled = true;
  }
  /** What a thread has less or more unread, its channel has too. */
  #set(thread: string, unread: number, mentions: number): void {
    const t = this.#threads.map.get(thread);
    if (!t) return;
    this.#threads.patch(thread, { unread_count: unread, mention_count: mentions });
    const { unread_count = 0, mention_count = 0 } = this.#channels.map.get(t.channel_id) ?? {};
    // Nothing can be taken from a count that stopped at its limit.
    if (Math.max(unread_count, mention_count) >= UNREAD_MAX) return this.#recount();
    this.#channels.shift(t.channel_id, unread - (t.unread_count ?? 0), mentions - (t.mention_count ?? 0));
  }
  /** A mark was moved: true when by another window of mine, whose counts are then the server's to say. */
  elsewhere(thread: string, seq: number): boolean {
    if (this.#mine.get(thread) === seq) return false;
    this.unsettle();
    void this.#learn(thread);
    return true;
  }
  /** The person's level in a thread was set, here or in another window: it changes what counts as unread. */
  followed(thread: string, follow: Follow): void {
    this.#threads.setFollow(thread, follow);
    this.unsettle();
    void this.#learn(thread);
  }
  async #learn(thread: string): Promise<void> {
    this.#recount();
    if (!this.#threads.map.has(thread)) return;
    const { moment } = this.#threads;
    try {
      this.#threads.learn(await this.#api.thread(thread), moment);
    } catch {
      // The list says it when it is read again.
    }
  }
}
