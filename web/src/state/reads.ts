import type { Api } from '../api/api';
import type { Channel } from '../api/types';
import type { Channels } from './channels.svelte';
import type { Threads } from './threads.svelte';

/** What has been read: told to the server, and kept in the counts of threads and channels. */
export class Reads {
  #api: Api;
  #threads: Threads;
  #channels: Channels;
  /** The mark that this window set last, by thread. */
  #mine = new Map<string, number>();

  constructor(api: Api, threads: Threads, channels: Channels) {
    this.#api = api;
    this.#threads = threads;
    this.#channels = channels;
  }

  async mark(thread: string, seq: number): Promise<void> {
    this.#mine.set(thread, seq);
    try {
      const now = await this.#api.markRead(thread, seq);
      this.#set(thread, now.unread_count, now.mention_count);
    } catch {
      // Offline or gone: the next message seen marks again.
    }
  }
  async markChannel(channel: Channel): Promise<void> {
    this.#channels.put(await this.#api.markChannelRead(channel.id));
    for (const t of this.#threads.inChannel(channel.id)) {
      this.#threads.patch(t.id, { unread_count: 0, mention_count: 0 });
    }
  }
  /** What a thread has less or more unread, its channel has too. */
  #set(thread: string, unread: number, mentions: number): void {
    const t = this.#threads.map.get(thread);
    if (!t) return;
    this.#threads.patch(thread, { unread_count: unread, mention_count: mentions });
    this.#channels.add(t.channel_id, unread - (t.unread_count ?? 0), mentions - (t.mention_count ?? 0));
  }
  /** A mark was moved: true when by another window of mine, whose counts are then the server's to say. */
  elsewhere(thread: string, seq: number): boolean {
    if (this.#mine.get(thread) === seq) return false;
    void this.#recount(thread);
    return true;
  }
  async #recount(thread: string): Promise<void> {
    try {
      const t = await this.#api.thread(thread);
      const c = await this.#api.channel(t.channel_id);
      if (this.#threads.map.has(thread)) this.#threads.put(t);
      this.#channels.put(c);
    } catch {
      // The next snapshot has them.
    }
  }
}
