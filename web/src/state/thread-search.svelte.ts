import type { Api } from '../api/api';
import type { Fork } from '../api/types';
import { SearchApi, type SearchHit } from '../api/search';

const MIN_CHARS = 2;
const WAIT_MS = 150;
const HITS_MAX = 8;

/** Search for threads, chats, and followed deep dives on the server, for the quick switcher, as the user types. */
export class ThreadSearch {
  hits = $state.raw<SearchHit[]>([]);
  forks = $state.raw<Fork[]>([]);
  busy = $state(false);
  #api: SearchApi;
  #rest: Api;
  #run = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(api: Api) {
    this.#api = api.part(SearchApi);
    this.#rest = api;
  }
  /** The latest query wins; hits of the previous one are cleared immediately. */
  type(query: string): void {
    const run = ++this.#run;
    const q = query.trim();
    clearTimeout(this.#timer);
    this.hits = [];
    this.forks = [];
    this.busy = q.length >= MIN_CHARS;
    if (this.busy) this.#timer = setTimeout(() => void this.#find(q, run), WAIT_MS);
  }
  async #find(q: string, run: number): Promise<void> {
    try {
      const found = await Promise.allSettled([
        this.#api.find({ q, kind: 'thread', limit: HITS_MAX }),
        import('../api/following').then(({ FollowingApi }) =>
          this.#rest.part(FollowingApi).list({ kind: 'fork', q }),
        ),
      ]);
      if (run !== this.#run) return;
      // Without an answer, known places are still listed, and the search page reports errors.
      const [threads, forks] = found;
      if (threads.status === 'fulfilled') this.hits = threads.value.data;
      if (forks.status === 'fulfilled')
        this.forks = forks.value.data.flatMap((followed) => followed.fork ?? []).slice(0, HITS_MAX);
    } finally {
      if (run === this.#run) this.busy = false;
    }
  }
  dispose(): void {
    this.#run++;
    clearTimeout(this.#timer);
  }
}
