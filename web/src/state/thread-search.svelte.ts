import type { Api } from '../api/api';
import { SearchApi, type SearchHit } from '../api/search';

const MIN_CHARS = 2;
const WAIT_MS = 150;
const HITS_MAX = 8;

/** Search for threads, chats, and deep dives on the server, for the quick switcher, as the user types. */
export class ThreadSearch {
  hits = $state.raw<SearchHit[]>([]);
  busy = $state(false);
  #api: SearchApi;
  #run = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(api: Api) {
    this.#api = api.part(SearchApi);
  }
  /** The latest query wins; hits of the previous one are cleared immediately. */
  type(query: string): void {
    const run = ++this.#run;
    const q = query.trim();
    clearTimeout(this.#timer);
    this.hits = [];
    this.busy = q.length >= MIN_CHARS;
    if (this.busy) this.#timer = setTimeout(() => void this.#find(q, run), WAIT_MS);
  }
  async #find(q: string, run: number): Promise<void> {
    try {
      const found = await this.#api.find({ q, kind: 'thread,fork', limit: HITS_MAX });
      if (run === this.#run) this.hits = found.data;
    } catch {
      // Known places are still listed, and the search page reports errors.
    } finally {
      if (run === this.#run) this.busy = false;
    }
  }
  dispose(): void {
    this.#run++;
    clearTimeout(this.#timer);
  }
}
