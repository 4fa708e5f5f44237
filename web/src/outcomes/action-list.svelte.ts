import { SvelteSet } from 'svelte/reactivity';
import type { Api } from '../api/api';
import { errorMessage } from '../api/problem';
import type { ActionItem, ActionItemPatch } from '../api/types';
import { DUE_GROUPS, dueGroup } from '../lib/resolution-due';
import type { Outcomes } from '../state/outcomes.svelte';

export type Whose = 'mine' | 'all' | 'none';
export interface ActionFilter {
  whose: Whose;
  done: boolean;
}
export interface ActionGroup {
  key: string;
  title: string;
  items: ActionItem[];
}
export interface ActionListDeps {
  readonly api: Pick<Api, 'actionItems'>;
  readonly myId: string;
  readonly outcomes: Outcomes;
}

/**
 * Number of pages that are loaded immediately, because groups by date need all items; further pages are
 * loaded on demand.
 */
const PAGES_AT_ONCE = 5;
const byDue = (a: ActionItem, b: ActionItem) =>
  (a.due ?? '9').localeCompare(b.due ?? '9') ||
  a.created_at.localeCompare(b.created_at) ||
  (a.id < b.id ? -1 : 1);

/** Action items of one filter. The items themselves are in `Outcomes`, which events keep up to date. */
export class ActionList {
  status = $state<'loading' | 'ready' | 'error'>('loading');
  problem = $state('');
  more = $state(false);
  busy = $state(false);
  filter = $state.raw<ActionFilter>({ whose: 'mine', done: false });
  /**
   * Items that were changed here and no longer match the filter. They are shown until it changes, so that a
   * mistake can be undone.
   */
  readonly held = new SvelteSet<string>();

  #deps: ActionListDeps;
  #after: string | undefined;
  #run = 0;

  readonly groups: ActionGroup[] = $derived.by(() => {
    const all = [...this.#deps.outcomes.items.values()]
      .filter((i) => this.held.has(i.id) || this.#fits(i))
      .sort(byDue);
    if (this.filter.done) return all.length ? [{ key: 'done', title: 'Done', items: all.reverse() }] : [];
    return DUE_GROUPS.map(([key, title]) => ({
      key,
      title,
      items: all.filter((i) => dueGroup(i.due) === key),
    })).filter((g) => g.items.length);
  });

  constructor(deps: ActionListDeps) {
    this.#deps = deps;
  }

  #fits(i: ActionItem): boolean {
    const { whose, done } = this.filter;
    const owned =
      whose === 'all' || (whose === 'mine' ? i.owner_id === this.#deps.myId : i.owner_id === null);
    return owned && i.done === done;
  }

  async load(filter: ActionFilter): Promise<void> {
    this.filter = filter;
    this.held.clear();
    this.#after = undefined;
    this.status = 'loading';
    await this.loadMore();
  }
  async loadMore(): Promise<void> {
    const run = ++this.#run;
    const { whose, done } = this.filter;
    this.busy = true;
    try {
      for (let i = 0; i < PAGES_AT_ONCE; i++) {
        const owner = whose === 'mine' ? 'me' : whose === 'none' ? 'none' : undefined;
        const page = await this.#deps.api.actionItems({ owner, done, after: this.#after });
        if (run !== this.#run) return;
        this.#deps.outcomes.learnItems(page.data);
        this.#after = page.data.at(-1)?.id ?? this.#after;
        this.more = page.has_more;
        if (!page.has_more) break;
      }
      this.status = 'ready';
    } catch (e) {
      if (run !== this.#run) return;
      this.problem = errorMessage(e);
      if (this.status === 'loading') this.status = 'error';
    } finally {
      if (run === this.#run) this.busy = false;
    }
  }
  async change(item: ActionItem, patch: ActionItemPatch): Promise<void> {
    this.held.add(item.id);
    await this.#deps.outcomes.change(item.id, patch);
  }
}
