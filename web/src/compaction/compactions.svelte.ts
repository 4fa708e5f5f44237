import type { Compaction, CompactionList, SentWindow, Summarized } from '../api/compactions';
import type { ServerEvent } from '../api/events';
import { isActive, placeOf } from '../state/tasks.svelte';
import { isOutdated } from './words';

/**
 * Summary of a long conversation: its records, and the window of messages that agents receive in full. Events
 * keep both up to date.
 */
export class Compactions {
  all = $state.raw<Compaction[]>([]);
  window = $state.raw<SentWindow | null>(null);
  loaded = $state(false);
  /** Records that the user has requested again, with the versions to be replaced. */
  #remade = $state.raw<ReadonlyMap<string, number>>(new Map());
  readonly of: Summarized;
  #list: (of: Summarized) => Promise<CompactionList>;
  #busy: Promise<void> | null = null;
  /** True if something changed while a request was in flight. */
  #stale = false;

  constructor(list: (of: Summarized) => Promise<CompactionList>, of: Summarized) {
    this.#list = list;
    this.of = of;
  }
  /** Loads everything; calls during a load cause one more load. */
  refresh(): Promise<void> {
    this.#stale = this.#busy !== null;
    return (this.#busy ??= this.#load().finally(() => {
      this.#busy = null;
      if (this.#stale) void this.refresh();
    }));
  }
  async #load(): Promise<void> {
    try {
      const { data, window } = await this.#list(this.of);
      this.all = data;
      this.window = window;
      this.loaded = true;
      this.#remade = new Map(
        [...this.#remade].filter(([id]) => data.some((r) => r.id === id && this.isRemade(r))),
      );
    } catch {
      // The next change, or the next visit, tries again.
    }
  }
  put(record: Compaction): void {
    this.all = this.all.map((r) => (r.id === record.id ? record : r));
  }
  drop(id: string): void {
    this.all = this.all.filter((r) => r.id !== id);
  }
  /**
   * Marks a record that the user has requested again as outdated until the new one arrives, although no
   * message changed.
   */
  remake(record: Compaction): void {
    this.#remade = new Map([...this.#remade, [record.id, record.version]]);
  }
  isRemade(record: Compaction): boolean {
    const version = this.#remade.get(record.id);
    return version !== undefined && (record.version === version || isOutdated(record));
  }
  onEvent(e: ServerEvent): void {
    if (this.#concerns(e)) void this.refresh();
  }
  #concerns(e: ServerEvent): boolean {
    switch (e.type) {
      case 'compaction.created':
      case 'compaction.updated':
      case 'compaction.deleted':
        return placeOf(e.data.compaction) === this.of.id;
      case 'memory.changed':
        return e.data.scope === 'conversation' && this.all.length > 0;
      case 'task.status_changed': {
        const { task } = e.data;
        // Each reply can move the window.
        return placeOf(task) === this.of.id && !isActive(task);
      }
      default:
        return false;
    }
  }
}
