import type { Api } from '../api/api';
import { errorMessage } from '../api/problem';
import { SearchApi, type SearchHit } from '../api/search';

const WAIT_MS = 150;
const PAGE = 100;

/** "Find in this thread": hits from the server, oldest first, and the current one. */
export class ThreadFind {
  hits = $state.raw<SearchHit[]>([]);
  /** Index of the current hit; -1 without one. */
  at = $state(-1);
  more = $state(false);
  busy = $state(false);
  problem = $state('');
  #api: SearchApi;
  #thread: string;
  #q = '';
  #cursor: string | undefined;
  #run = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #show: (hit: SearchHit) => void;

  constructor(api: Api, thread: string, show: (hit: SearchHit) => void) {
    this.#api = api.part(SearchApi);
    this.#thread = thread;
    this.#show = show;
  }
  type(query: string): void {
    this.#q = query.trim();
    this.#run++;
    this.#cursor = undefined;
    this.hits = [];
    this.at = -1;
    this.more = false;
    this.problem = '';
    clearTimeout(this.#timer);
    this.busy = this.#q !== '';
    if (this.busy) this.#timer = setTimeout(() => void this.#page().then(() => this.#go(0)), WAIT_MS);
  }
  async #page(): Promise<void> {
    const run = this.#run;
    this.busy = true;
    try {
      const page = await this.#api.find({
        q: this.#q,
        thread_id: this.#thread,
        order: 'oldest',
        limit: PAGE,
        cursor: this.#cursor,
      });
      if (run !== this.#run) return;
      this.hits = [...this.hits, ...page.data];
      this.#cursor = page.next_cursor ?? undefined;
      this.more = page.has_more && this.#cursor !== undefined;
    } catch (e) {
      if (run === this.#run) this.problem = errorMessage(e);
    } finally {
      if (run === this.#run) this.busy = false;
    }
  }
  #go(at: number): void {
    const hit = this.hits[at];
    if (!hit) return;
    this.at = at;
    this.#show(hit);
  }
  async next(): Promise<void> {
    if (this.busy) return;
    if (this.at + 1 >= this.hits.length && this.more) await this.#page();
    this.#go(this.at + 1 < this.hits.length ? this.at + 1 : 0);
  }
  previous(): void {
    if (!this.busy) this.#go(this.at > 0 ? this.at - 1 : this.hits.length - 1);
  }
  dispose(): void {
    this.#run++;
    clearTimeout(this.#timer);
  }
}
