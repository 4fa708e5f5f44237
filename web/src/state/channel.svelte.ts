import type { Api } from '../api/api';
import { isMissing, errorMessage } from '../api/problem';
import type { Task, Thread } from '../api/types';
import { BEFORE_ALL_SEQS } from '../lib/messages';
import { FilteredThreads } from './filtered-threads.svelte';
import type { Loading } from './window.svelte';

export interface ChannelStateDeps {
  readonly api: Api;
  readonly threads: { readonly version: number; readonly map: ReadonlyMap<string, Thread> };
  learnThread(thread: Thread, version: number): void;
  learnTasks(tasks: Task[]): void;
}

/** Loaded threads of a channel, latest activity first. The threads themselves are in `Threads`. */
export class ChannelState {
  readonly id: string;
  status = $state<Loading>('loading');
  problem = $state('');
  ids = $state.raw<readonly string[]>([]);
  more = $state(false);
  busy = $state(false);
  /** Threads that match the filter of the list. */
  readonly filtered: FilteredThreads;
  #known = new Set<string>();
  #cursor: string | undefined;
  /** `last_seq` down to which the list is complete; an older thread would leave a gap. */
  #reach = Infinity;
  /** Cursor after the first page; null if it was the only one. */
  #first: { cursor: string | undefined; reach: number } | null = null;
  /** Incremented on each load from the start: responses to earlier loads are dropped. */
  #load = 0;
  #deps: ChannelStateDeps;

  constructor(id: string, deps: ChannelStateDeps) {
    this.id = id;
    this.#deps = deps;
    this.filtered = new FilteredThreads(id, deps);
  }

  get loaded(): number {
    return this.ids.length;
  }
  async load(): Promise<void> {
    if (this.status !== 'ready') this.status = 'loading';
    this.#load++;
    await this.#page(undefined);
  }
  async loadMore(): Promise<void> {
    if (this.more && !this.busy) await this.#page(this.#cursor);
  }
  async #page(cursor: string | undefined): Promise<void> {
    const load = this.#load;
    this.busy = true;
    try {
      const { version } = this.#deps.threads;
      const page = await this.#deps.api.threads(this.id, cursor);
      if (load !== this.#load) return;
      // A thread that moved up while the page was loading is already in its place.
      const ids = page.data.map((t) => t.id).filter((id) => !cursor || !this.#known.has(id));
      this.#set(cursor ? [...this.ids, ...ids] : ids);
      for (const t of page.data) {
        this.#deps.learnThread(t, version);
        this.#deps.learnTasks(t.active_tasks ?? []);
      }
      this.#cursor = page.next_cursor ?? undefined;
      this.more = page.has_more && this.#cursor !== undefined;
      this.#reach = this.more ? (page.data.at(-1)?.last_seq ?? BEFORE_ALL_SEQS) : BEFORE_ALL_SEQS;
      if (!cursor) this.#first = this.more ? { cursor: this.#cursor, reach: this.#reach } : null;
      if (!cursor) for (const t of this.#deps.threads.map.values()) this.put(t);
      this.status = 'ready';
    } catch (e) {
      if (this.status !== 'ready' && load === this.#load) {
        this.problem = errorMessage(e);
        this.status = isMissing(e) ? 'missing' : 'error';
      }
    } finally {
      if (load === this.#load) this.busy = false;
    }
  }
  /** Moves a thread to its place by latest activity, unless that is below the loaded part. */
  put(thread: Thread): void {
    if (thread.channel_id !== this.id) return;
    const here = this.#known.has(thread.id);
    if (!here && !this.covers(thread.last_seq)) return;
    const seqAt = (i: number) => this.#deps.threads.map.get(this.ids[i]!)?.last_seq ?? BEFORE_ALL_SEQS;
    const at = here ? this.ids.indexOf(thread.id) : -1;
    const fits =
      here &&
      (at === 0 || seqAt(at - 1) > thread.last_seq) &&
      (at === this.ids.length - 1 || seqAt(at + 1) < thread.last_seq);
    if (fits) return;
    const others = here ? this.ids.toSpliced(at, 1) : this.ids;
    const next = others.findIndex(
      (id) => (this.#deps.threads.map.get(id)?.last_seq ?? BEFORE_ALL_SEQS) < thread.last_seq,
    );
    this.#set(others.toSpliced(next < 0 ? others.length : next, 0, thread.id));
  }
  /** Removes a thread that was deleted. */
  remove(thread: string): void {
    if (this.#known.has(thread)) this.#set(this.ids.filter((id) => id !== thread));
  }
  /** Checks whether the list reaches a thread with this `last_seq`. */
  covers(seq: number): boolean {
    return seq >= this.#reach;
  }
  has(thread: string): boolean {
    return this.#known.has(thread);
  }
  /**
   * Called when the list is no longer on screen: drops threads below the first page; scrolling down loads them
   * again.
   */
  leave(): void {
    void this.filtered.load(null);
    if (!this.#first || this.#first.cursor === this.#cursor) return;
    this.#load++; // drops a page in flight
    this.busy = false;
    this.#reach = this.#first.reach;
    this.#cursor = this.#first.cursor;
    this.more = true;
    const { map } = this.#deps.threads;
    this.#set(this.ids.filter((id) => this.covers(map.get(id)?.last_seq ?? BEFORE_ALL_SEQS)));
  }
  #set(ids: readonly string[]): void {
    this.ids = ids;
    this.#known = new Set(ids);
  }
}
