import type { ServerEvent } from '../api/events';
import { ApiError, errorMessage, Unreachable } from '../api/problem';
import type { SearchApi, SearchHit, SearchPage } from '../api/search';

/** Hits in one thread. */
export interface Group {
  thread: string;
  hits: SearchHit[];
}
/**
 * Groups by thread, the thread with the newest hit first. Not a field of the list, which outlives the page's derived
 * values.
 */
export function groupsOf(hits: readonly SearchHit[]): Group[] {
  const groups = new Map<string, Group>();
  for (const hit of hits) {
    const group = groups.get(hit.thread_id);
    if (group) group.hits.push(hit);
    else groups.set(hit.thread_id, { thread: hit.thread_id, hits: [hit] });
  }
  return [...groups.values()];
}
const PAGE = 20;
const PAGE_MAX = 100;
/** Delay before a search is repeated: people who edit often save more than once. */
const REFRESH_AFTER_MS = 400;

/** Loaded hits of a search, newest first, kept up to date by events. */
export class SearchList {
  status = $state<'idle' | 'loading' | 'ready' | 'error'>('idle');
  /** The error, and whether another attempt makes sense. */
  problem = $state('');
  cause = $state<'query' | 'network' | 'server'>('server');
  hits = $state.raw<SearchHit[]>([]);
  more = $state(false);
  busy = $state(false);
  /** Indexed share of the messages, while the server rebuilds its index; otherwise null. */
  indexed = $state<number | null>(null);
  /** Error of the next page; the loaded hits stay. */
  stuck = $state('');
  q = $state('');
  /** Scroll position and focused hit, restored on return. */
  top = 0;
  at: string | null = null;

  #api: Pick<SearchApi, 'find'>;
  #myId: string;
  #cursor: string | undefined;
  #run = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** IDs of deleted messages: a response in flight may still contain them. */
  #gone = new Set<string>();

  constructor(api: Pick<SearchApi, 'find'>, myId: string) {
    this.#api = api;
    this.#myId = myId;
  }

  /** The current hits stay on screen until the response arrives, even when the same search is repeated. */
  async load(q: string): Promise<void> {
    const again = q === this.q && this.status === 'ready';
    this.q = q;
    this.stuck = '';
    clearTimeout(this.#timer);
    if (!q) return this.#clear();
    if (again) return this.#refresh();
    this.top = 0;
    this.at = null;
    if (!this.hits.length) this.status = 'loading';
    const run = ++this.#run;
    this.busy = true;
    try {
      const page = await this.#api.find({ q, limit: PAGE });
      if (run !== this.#run) return;
      this.hits = this.#left(page.data);
      this.#next(page);
      this.status = 'ready';
    } catch (e) {
      if (run !== this.#run) return;
      this.hits = [];
      this.more = false;
      this.problem = errorMessage(e);
      this.cause =
        e instanceof Unreachable ? 'network' : e instanceof ApiError && e.status === 400 ? 'query' : 'server';
      this.status = 'error';
    } finally {
      if (run === this.#run) this.busy = false;
    }
  }
  #clear(): void {
    this.#run++;
    this.hits = [];
    this.more = false;
    this.busy = false;
    this.status = 'idle';
  }
  #left(hits: SearchHit[]): SearchHit[] {
    return hits.filter((h) => !this.#gone.has(h.id));
  }
  #next(page: SearchPage): void {
    this.#cursor = page.next_cursor ?? undefined;
    this.more = page.has_more && this.#cursor !== undefined;
    this.indexed = page.index?.done ?? null;
  }
  async loadMore(): Promise<void> {
    if (!this.more || this.busy) return;
    const run = ++this.#run;
    this.busy = true;
    this.stuck = '';
    try {
      const page = await this.#api.find({ q: this.q, limit: PAGE, cursor: this.#cursor });
      if (run !== this.#run) return;
      const known = new Set(this.hits.map((h) => h.id));
      this.hits = [...this.hits, ...this.#left(page.data).filter((h) => !known.has(h.id))];
      this.#next(page);
    } catch (e) {
      if (run === this.#run) this.stuck = errorMessage(e);
    } finally {
      if (run === this.#run) this.busy = false;
    }
  }
  /** Repeats the search for the first page; hits below it stay as they were. */
  async #refresh(): Promise<void> {
    const run = ++this.#run;
    const limit = Math.min(Math.max(this.hits.length, PAGE), PAGE_MAX);
    this.busy = true;
    try {
      const page = await this.#api.find({ q: this.q, limit });
      if (run !== this.#run) return;
      const last = page.data.at(-1);
      const below = page.has_more && last ? this.hits.filter((h) => h.seq < last.seq) : [];
      this.hits = [...this.#left(page.data), ...below];
      if (!below.length) this.#next(page);
    } catch {
      // The listed hits were valid a moment ago; the next event or search tries again.
    } finally {
      if (run === this.#run) this.busy = false;
    }
  }

  onEvent(e: ServerEvent): void {
    switch (e.type) {
      case 'message.deleted':
        return this.#lose(e.data.message.id);
      case 'message.updated': {
        const now = e.data.message;
        const hit = this.hits.find((h) => h.id === now.id);
        if (now.deleted_at) return this.#lose(now.id);
        if (hit && hit.content !== now.content) this.#soon(); // the server decides whether it is still a hit
        return;
      }
      case 'thread.updated': {
        const { id, title } = e.data.thread;
        const old = this.hits.find((h) => h.thread_id === id);
        if (old && old.thread_title !== title) this.#soon();
        return;
      }
      case 'channel.member_removed':
        if (e.data.user_id === this.#myId && e.data.channel.kind !== 'public')
          this.#drop((h) => h.channel_id === e.data.channel.id);
    }
  }
  #lose(id: string): void {
    this.#gone.add(id);
    this.#drop((h) => h.id === id);
  }
  #drop(gone: (h: SearchHit) => boolean): void {
    if (this.hits.some(gone)) this.hits = this.hits.filter((h) => !gone(h));
  }
  #soon(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#refresh(), REFRESH_AFTER_MS);
  }
  dispose(): void {
    clearTimeout(this.#timer);
  }
}
