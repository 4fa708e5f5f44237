import type { Api, ThreadFilter } from '../api/api';
import { errorMessage } from '../api/problem';
import type { Thread } from '../api/types';

interface FilteredThreadsDeps {
  readonly api: Api;
  readonly threads: { readonly version: number };
  learnThread(thread: Thread, version: number): void;
}

/** Threads of a channel that the server finds by a filter; the channel's list need not have loaded them. */
export class FilteredThreads {
  ids = $state.raw<ReadonlySet<string>>(new Set());
  problem = $state('');
  more = $state(false);
  busy = $state(false);
  #filter: ThreadFilter | null = null;
  #cursor: string | undefined;
  #deps: FilteredThreadsDeps;
  #channel: string;

  constructor(channel: string, deps: FilteredThreadsDeps) {
    this.#channel = channel;
    this.#deps = deps;
  }
  get loaded(): number {
    return this.ids.size;
  }
  /** Starts again with this filter; null for none. */
  async load(filter: ThreadFilter | null): Promise<void> {
    this.#filter = filter;
    this.#cursor = undefined;
    this.ids = new Set();
    this.problem = '';
    this.more = false;
    this.busy = false;
    await this.loadMore();
  }
  async loadMore(): Promise<void> {
    const filter = this.#filter;
    if (!filter) return;
    this.busy = true;
    try {
      const { version } = this.#deps.threads;
      const page = await this.#deps.api.threads(this.#channel, this.#cursor, filter);
      if (filter !== this.#filter) return;
      // Set first, because the cache drops threads that are not shown.
      this.ids = new Set([...this.ids, ...page.data.map((t) => t.id)]);
      for (const t of page.data) this.#deps.learnThread(t, version);
      this.#cursor = page.next_cursor ?? undefined;
      this.more = page.has_more && this.#cursor !== undefined;
      this.problem = '';
    } catch (e) {
      if (filter === this.#filter) this.problem = errorMessage(e);
    } finally {
      if (filter === this.#filter) this.busy = false;
    }
  }
  /** Adds a thread of this channel in which a resolution was published. */
  add(thread: string): void {
    if (!this.ids.has(thread)) this.ids = new Set([...this.ids, thread]);
  }
}
