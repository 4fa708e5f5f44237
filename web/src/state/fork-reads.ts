import type { Api } from '../api/api';
import type { Follow } from '../api/types';
import type { Channels } from './channels.svelte';
import type { Forks } from './forks.svelte';
import type { Reading, UnreadCounts } from './reading.svelte';

interface ForkReadsDeps {
  readonly api: Api;
  readonly channels: Channels;
  readonly forks: Forks;
}

/** Read markers and follow levels of forks: their messages count only there, for followers. */
export class ForkReads {
  #deps: ForkReadsDeps;
  #reading: (fork: string) => Reading | undefined;
  /** The newest marker of this window by fork, until another window moves it. */
  #mine = new Map<string, number>();

  constructor(deps: ForkReadsDeps, reading: (fork: string) => Reading | undefined) {
    this.#deps = deps;
    this.#reading = reading;
  }
  /** Moves the read marker, which only members of the channel have. Returns null if the server cannot be reached. */
  async mark(fork: string, seq: number): Promise<UnreadCounts | null> {
    const { api, channels, forks } = this.#deps;
    const { channel_id, message_count: before } = forks.get(fork) ?? {};
    const mention_count = 0;
    if (channel_id && !channels.follows(channel_id)) return { unread_count: 0, mention_count };
    this.#mine.set(fork, seq);
    try {
      const { unread_count } = await api.markForkRead(fork, seq);
      forks.patch(fork, { read_seq: seq, unread_count });
      // The count may not include a message that arrived in the meantime.
      if (forks.get(fork)?.message_count !== before) void this.#learn(fork);
      return { unread_count, mention_count };
    } catch {
      return null; // the list tries again while the message is on screen
    }
  }
  /** Applies a marker that another window of the user moved. */
  marked(fork: string, seq: number): void {
    const mine = this.#mine.get(fork);
    if (mine !== undefined && seq <= mine) return void (seq === mine && this.#mine.delete(fork));
    this.#reading(fork)?.readElsewhere(seq);
    void this.#learn(fork);
  }
  /** Applies a changed follow level, set here or in another window: only followers have unread messages. */
  followed(fork: string, follow: Follow): void {
    this.#deps.forks.patch(fork, { follow });
    void this.#learn(fork);
  }
  async #learn(fork: string): Promise<void> {
    const { api, forks } = this.#deps;
    if (!forks.get(fork)) return;
    const { version } = forks;
    try {
      forks.learn(await api.fork(fork), version);
    } catch {
      // Opening the fork loads it again.
    }
  }
}
