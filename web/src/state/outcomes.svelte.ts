import { SvelteMap } from 'svelte/reactivity';
import type { Api } from '../api/api';
import type { OutcomeEvent } from '../api/events';
import type { ActionItem, ActionItemPatch, Fork, Message, Resolution, ResolutionAction } from '../api/types';

export interface OutcomesDeps {
  readonly api: Pick<Api, 'resolutions' | 'actionItems' | 'patchActionItem'>;
  readonly myId: string;
  readonly forks: { inThread(thread: string): readonly Fork[] };
  readonly forkActions: { list(thread: string): Promise<void> };
}

const PAGES_MAX = 5;

/** Published resolutions of forks, in all versions, and their action items. Drafts are not included. */
export class Outcomes {
  readonly results = new SvelteMap<string, Resolution>();
  readonly items = new SvelteMap<string, ActionItem>();
  /** Resolution messages whose resolution could not be loaded, with the reason; `want` tries again. */
  readonly failed = new SvelteMap<string, string>();
  /** Number of open action items of the user, for the sidebar. */
  readonly mineOpen = $derived.by(
    () => [...this.items.values()].filter((i) => !i.done && i.owner_id === this.#deps.myId).length,
  );
  /** Counts the starts: lists loaded before the latest one are loaded again. */
  starts = $state(0);
  /** ID of the fork whose posted text the user chose to edit instead of requesting a new draft. */
  editing: string | null = null;

  #deps: OutcomesDeps;
  #asked = new Set<string>();

  constructor(deps: OutcomesDeps) {
    this.#deps = deps;
  }

  /** Called with the snapshot: loads the user's open items, so that their number is correct from then on. */
  async start(): Promise<void> {
    this.starts++;
    this.results.clear();
    this.items.clear();
    this.failed.clear();
    this.#asked.clear(); // cards on screen request their results again
    try {
      let after: string | undefined;
      for (let i = 0; i < PAGES_MAX; i++) {
        const page = await this.#deps.api.actionItems({ owner: 'me', done: false, after });
        this.learnItems(page.data);
        after = page.data.at(-1)?.id;
        if (!page.has_more || !after) return;
      }
    } catch {
      // The number is shown when the page is opened, or after the next start.
    }
  }

  /** Known versions of one fork's resolution, oldest first. */
  of(fork: string): Resolution[] {
    return [...this.results.values()].filter((r) => r.fork_id === fork).sort((a, b) => a.version - b.version);
  }
  newest(fork: string): Resolution | undefined {
    return this.of(fork).findLast((r) => r.status === 'published');
  }
  /** Loads the resolution of a resolution message on screen, once. */
  want(card: Message): void {
    const { resolution_id: id, fork_id: fork } = card.metadata;
    if (!id || !fork || this.results.has(id) || this.#asked.has(card.id)) return;
    this.#asked.add(card.id);
    this.failed.delete(card.id);
    void this.#find(card, fork);
  }
  /** Loads the resolution, and the fork itself for its `stale` flag. */
  async #find(card: Message, fork: string): Promise<void> {
    const { forks, forkActions } = this.#deps;
    const isKnown = forks.inThread(card.thread_id).some((f) => f.id === fork);
    try {
      await Promise.all([isKnown ? null : forkActions.list(card.thread_id), this.load(fork)]);
    } catch {
      this.#asked.delete(card.id);
      this.failed.set(card.id, 'Couldn’t load this result.');
    }
  }
  /** Loads all published versions of one fork's resolution. */
  async load(fork: string): Promise<void> {
    let after: string | undefined;
    for (let i = 0; i < PAGES_MAX; i++) {
      const page = await this.#deps.api.resolutions(fork, { after });
      for (const r of page.data) this.learn(r);
      after = page.data.at(-1)?.id;
      if (!page.has_more || !after) return;
    }
  }

  /**
   * Stores a resolution from a response, which may be older than the events: it adds data, but never reverts
   * any.
   */
  learn(r: Resolution): void {
    if (r.status === 'draft') return;
    const old = this.results.get(r.id);
    if (old && (old.status === 'superseded' || old.updated_at > r.updated_at)) return;
    this.results.set(r.id, r);
    if (r.status === 'published') this.learnItems(itemsOf(r));
  }
  learnItems(items: readonly ActionItem[]): void {
    for (const item of items) if (!this.items.has(item.id)) this.items.set(item.id, item);
  }
  apply(e: OutcomeEvent): void {
    if (e.type === 'action_item.updated') {
      this.items.set(e.data.action_item.id, e.data.action_item);
      return;
    }
    const r = e.data.resolution;
    if (r.status === 'draft') return;
    this.results.set(r.id, r);
    if (r.status === 'published') this.#replaceItems(r);
  }
  /** Replaces the action items: a new version keeps some of them, adds others, and drops the rest. */
  #replaceItems(r: Resolution): void {
    const now = new Map(itemsOf(r).map((i) => [i.id, i]));
    for (const [id, item] of this.items)
      if (item.fork_id === r.fork_id && !now.has(id)) this.items.delete(id);
    for (const [id, item] of now) {
      const old = this.items.get(id);
      const kept = old?.done && item.done ? { done_at: old.done_at, done_by: old.done_by } : {};
      this.items.set(id, { ...item, created_at: old?.created_at ?? item.created_at, ...kept });
    }
  }

  /** An action item in its current state; a replaced version shows the state at its time. */
  now(r: Resolution, action: ResolutionAction): ResolutionAction {
    const item = this.items.get(action.id);
    return item?.resolution_id === r.id ? item : action;
  }
  /** Shows the change immediately, and reverts it if the server rejects it. Rejects with the server's error. */
  async change(id: string, patch: ActionItemPatch): Promise<void> {
    const before = this.items.get(id);
    if (!before) return;
    const shown: Partial<ActionItem> = 'owner_id' in patch ? { ...patch, owner_name: null } : patch;
    this.items.set(id, { ...before, ...shown });
    try {
      this.items.set(id, await this.#deps.api.patchActionItem(id, patch));
    } catch (e) {
      const now = this.items.get(id);
      const keys = Object.keys(shown) as (keyof ActionItem)[];
      if (now) this.items.set(id, { ...now, ...Object.fromEntries(keys.map((k) => [k, before[k]])) });
      throw e;
    }
  }
}

/**
 * Action items of a published resolution, as in lists. A resolution does not include who completed an item, or
 * when.
 */
export const itemsOf = (r: Resolution): ActionItem[] =>
  r.action_items.map((a) => ({
    ...a,
    workspace_id: r.workspace_id,
    channel_id: r.channel_id,
    thread_id: r.thread_id,
    fork_id: r.fork_id,
    resolution_id: r.id,
    message_id: r.message_id ?? '',
    headline: r.headline,
    created_at: r.published_at ?? r.created_at,
    done_at: null,
    done_by: null,
  }));
