import type { ServerEvent } from '../api/events';
import type { Memory, MemoryApi, MemoryFilter } from '../api/memory';
import { errorMessage } from '../api/problem';

const PAGE = 20;
const PAGE_MAX = 100;

/** Loaded entries of one owner or scope, newest first, kept up to date by events. */
export class MemoryList {
  status = $state<'loading' | 'ready' | 'error'>('loading');
  problem = $state('');
  entries = $state.raw<Memory[]>([]);
  busy = $state(false);
  query = $state('');
  #cursor = $state<string | null>(null);
  #api: Pick<MemoryApi, 'list'>;
  #filter: MemoryFilter;
  #run = 0;
  /** True if something changed while a request was in flight. */
  #stale = false;

  constructor(api: Pick<MemoryApi, 'list'>, filter: MemoryFilter) {
    this.#api = api;
    this.#filter = filter;
  }
  get more(): boolean {
    return this.#cursor !== null;
  }
  /** The current list stays on screen until the response arrives. */
  load = (): Promise<void> => this.#read(0);
  search(query: string): Promise<void> {
    this.query = query.trim();
    return this.#read(0);
  }
  /** Reloads the loaded part of the list. */
  async refresh(): Promise<void> {
    this.#stale = this.busy;
    if (!this.busy) await this.#read(this.entries.length);
  }
  async loadMore(): Promise<void> {
    if (this.more && !this.busy) await this.#read(PAGE, true);
  }
  async #read(count: number, isNext = false): Promise<void> {
    const run = ++this.#run;
    const read = isNext ? [...this.entries] : [];
    const wanted = read.length + count;
    let cursor = isNext ? this.#cursor : null;
    this.busy = true;
    this.problem = '';
    try {
      do {
        const page = await this.#api.list({
          ...this.#filter,
          ...(this.query ? { q: this.query } : {}),
          ...(cursor ? { cursor } : {}),
          limit: Math.min(Math.max(wanted - read.length, PAGE), PAGE_MAX),
        });
        if (run !== this.#run) return;
        read.push(...page.data);
        cursor = page.next_cursor ?? null;
      } while (cursor && read.length < wanted);
      this.entries = read;
      this.#cursor = cursor;
      this.status = 'ready';
    } catch (e) {
      if (run !== this.#run) return;
      this.problem = errorMessage(e);
      if (!this.entries.length) this.status = 'error';
    } finally {
      if (run === this.#run) this.busy = false;
    }
    if (this.#stale) await this.refresh();
  }

  /** Applies the response to a change, before its event arrives. */
  put(entry: Memory): void {
    this.entries = this.entries.map((e) => (e.id === entry.id ? entry : e));
  }
  drop(id: string): void {
    this.entries = this.entries.filter((e) => e.id !== id);
  }
  onEvent(e: ServerEvent): void {
    if (e.type !== 'memory.changed' || (this.#filter.scope ?? e.data.scope) !== e.data.scope) return;
    if (e.data.action === 'deleted' && !this.busy) this.drop(e.data.memory_id);
    else void this.refresh();
  }
}
