import type { Api } from '../api/api';
import type { OutcomeEvent } from '../api/events';
import { errorMessage } from '../api/problem';
import type { Resolution } from '../api/types';

export interface DecisionFilter {
  q: string;
  channel: string;
}

/** Loaded decisions, newest first. */
export class DecisionList {
  status = $state<'loading' | 'ready' | 'error'>('loading');
  problem = $state('');
  results = $state.raw<Resolution[]>([]);
  more = $state(false);
  busy = $state(false);
  filter = $state.raw<DecisionFilter>({ q: '', channel: '' });

  #api: Pick<Api, 'decisions'>;
  #cursor: string | undefined;
  #run = 0;

  constructor(api: Pick<Api, 'decisions'>) {
    this.#api = api;
  }

  /** The current list stays on screen until the response arrives. */
  async load(filter: DecisionFilter): Promise<void> {
    this.filter = filter;
    await this.#page(undefined);
  }
  async loadMore(): Promise<void> {
    if (this.more && !this.busy) await this.#page(this.#cursor);
  }
  async #page(cursor: string | undefined): Promise<void> {
    const run = ++this.#run;
    const { q, channel } = this.filter;
    this.busy = true;
    try {
      const page = await this.#api.decisions({
        ...(q ? { q } : {}),
        ...(channel ? { channel_id: channel } : {}),
        ...(cursor ? { cursor } : {}),
      });
      if (run !== this.#run) return;
      const known = new Set(cursor ? this.results.map((r) => r.id) : []);
      this.results = [...(cursor ? this.results : []), ...page.data.filter((r) => !known.has(r.id))];
      this.#cursor = page.next_cursor ?? undefined;
      this.more = page.has_more && this.#cursor !== undefined;
      this.status = 'ready';
    } catch (e) {
      if (run !== this.#run) return;
      this.problem = errorMessage(e);
      if (!this.results.length || !cursor) this.status = 'error';
    } finally {
      if (run === this.#run) this.busy = false;
    }
  }
  /**
   * Adds a new decision at the top, in place of its older version. With a search query, or during a request
   * whose response may not include it yet, loads the list again instead.
   */
  onEvent(e: OutcomeEvent): void {
    if (e.type === 'action_item.updated') return this.#tick(e.data.action_item.id, e.data.action_item.done);
    if (e.type !== 'resolution.published') return;
    const r = e.data.resolution;
    const others = this.results.filter((x) => x.fork_id !== r.fork_id);
    const { q, channel } = this.filter;
    if (q || this.busy) void this.load(this.filter);
    else this.results = channel && channel !== r.channel_id ? others : [r, ...others];
  }
  #tick(item: string, done: boolean): void {
    this.results = this.results.map((r) =>
      r.action_items.some((a) => a.id === item)
        ? { ...r, action_items: r.action_items.map((a) => (a.id === item ? { ...a, done } : a)) }
        : r,
    );
  }
}
