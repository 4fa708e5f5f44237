import type { Api } from '../api/api';
import { errorMessage } from '../api/problem';
import type { Thread } from '../api/types';

const PAGES_MAX = 10;
const THREADS_AT_ONCE = 4;

interface ChannelResultsDeps {
  readonly api: Api;
  readonly threads: { readonly map: ReadonlyMap<string, Thread>; readonly version: number };
  learnThread(thread: Thread, version: number): void;
}

/** Threads of a channel with a published resolution, for the Results filter. */
export class ChannelResults {
  ids = $state.raw<ReadonlySet<string>>(new Set());
  problem = $state('');
  #deps: ChannelResultsDeps;
  #channel: string;

  constructor(channel: string, deps: ChannelResultsDeps) {
    this.#channel = channel;
    this.#deps = deps;
  }
  async load(): Promise<void> {
    this.problem = '';
    try {
      const ids = new Set<string>();
      let cursor: string | undefined;
      for (let page = 0; page < PAGES_MAX; page++) {
        const found = await this.#deps.api.decisions({ channel_id: this.#channel, cursor });
        for (const r of found.data) ids.add(r.thread_id);
        cursor = found.next_cursor ?? undefined;
        if (!found.has_more || !cursor) break;
      }
      this.ids = ids; // set first, because the cache drops threads that are not shown
      await this.#learn([...ids].filter((id) => !this.#deps.threads.map.has(id)));
    } catch (e) {
      this.problem = errorMessage(e);
    }
  }
  /** Adds a thread of this channel in which a resolution was published. */
  add(thread: string): void {
    if (!this.ids.has(thread)) this.ids = new Set([...this.ids, thread]);
  }
  async #learn(missing: string[]): Promise<void> {
    const { version } = this.#deps.threads;
    const next = async (): Promise<void> => {
      for (let id = missing.pop(); id; id = missing.pop())
        await this.#deps.api.thread(id).then(
          (t) => this.#deps.learnThread(t, version),
          () => undefined,
        );
    };
    // A thread that cannot be loaded is left out; the others are shown.
    await Promise.all(Array.from({ length: THREADS_AT_ONCE }, next));
  }
}
