import type { InboxChanges, InboxSummary } from '../api/inbox';

/** Minimum delay before changes are read, so that causes that come together need one request. */
const SOON_MS = 100;
const SOON_SPREAD_MS = 250;
/** Items of a whole channel reach many people at once; their windows ask at different times. */
const CHANNEL_SPREAD_MS = 10_000;

/** Time that the leading window has, before another one reads the changes itself. */
const FOLLOW_MS = 2000;

/** What was marked as read: a thread's main line, all threads of a channel, or a fork. */
export type ReadPlace = { thread: string } | { channel: string } | { fork: string };
/** A list that follows the inbox. */
export interface InboxReader {
  changed(changes: InboxChanges): void;
  /** Called when a read marker moved. */
  read(place: ReadPlace, seq: number): void;
}
interface FeedDeps {
  changes(since: number): Promise<InboxChanges>;
  /** False if another window reads the changes, and shares them. */
  leads?(): boolean;
  /** Called with changes that this window read. */
  share?(since: number, changes: InboxChanges): void;
  /** True while requests get through; otherwise the next connection asks. */
  reaches(): boolean;
  random?(): number;
}

/** Number of open inbox items, and requests for what changed. */
export class InboxFeed {
  open = $state(0);
  /** True while the inbox is on screen: it asks for items of channels without a delay. */
  onScreen = false;
  #deps: FeedDeps;
  #random: () => number;
  #seq = 0;
  #readers = new Set<InboxReader>();
  #timer: ReturnType<typeof setTimeout> | null = null;
  #due = Infinity;
  #busy = false;
  #stopped = false;
  /** Number of changes of this window that are not confirmed: meanwhile, counts from the server are behind. */
  #held = 0;

  constructor(deps: FeedDeps) {
    this.#deps = deps;
    this.#random = deps.random ?? Math.random;
  }
  dispose(): void {
    this.#stopped = true;
    clearTimeout(this.#timer ?? undefined);
  }
  /** Follows changes. Returns a function that stops it. */
  follow(reader: InboxReader): () => void {
    this.#readers.add(reader);
    return () => this.#readers.delete(reader);
  }
  /** Event up to which changes were read. */
  get seq(): number {
    return this.#seq;
  }
  /** Applies the summary of a snapshot; lists are loaded again. */
  load({ open, seq }: InboxSummary): void {
    this.open = open;
    this.#seq = seq;
    for (const reader of this.#readers) reader.changed({ data: [], open, seq, resync: true });
  }
  /** Changes the count ahead of the server's response. Returns a function to call after the response. */
  shift(by: number): () => void {
    this.open = Math.max(0, this.open + by);
    this.#held++;
    return () => {
      this.#held--;
      this.soon();
    };
  }
  /** Asks for changes within 500 ms. */
  soon(): void {
    this.#ask(SOON_MS + this.#random() * SOON_SPREAD_MS);
  }
  /** Asks for changes that concern many people: within 10 s, or soon while the inbox is on screen. */
  spread(): void {
    if (this.onScreen) this.soon();
    else this.#ask(this.#random() * CHANNEL_SPREAD_MS);
  }
  read(place: ReadPlace, seq: number): void {
    for (const reader of this.#readers) reader.read(place, seq);
    if (this.open || this.onScreen) this.soon();
  }
  /** Applies changes that another window read. If some are missing in between, this window reads them itself. */
  shared(since: number, changes: InboxChanges): void {
    if (changes.seq <= this.#seq) return;
    if (since > this.#seq) return this.soon();
    clearTimeout(this.#timer ?? undefined);
    this.#due = Infinity;
    this.#apply(changes);
  }
  #apply(changes: InboxChanges): void {
    this.#seq = changes.seq;
    if (!this.#held) this.open = changes.open;
    for (const reader of this.#readers) reader.changed(changes);
  }
  #ask(after: number): void {
    const ms = after + (this.#deps.leads?.() === false ? FOLLOW_MS : 0);
    const due = Date.now() + ms;
    if (this.#stopped || this.#due <= due) return;
    this.#due = due;
    clearTimeout(this.#timer ?? undefined);
    this.#timer = setTimeout(() => void this.#refresh(), ms);
  }
  async #refresh(): Promise<void> {
    if (this.#busy) return; // the running request asks again, because `#due` is set
    this.#due = Infinity;
    if (!this.#deps.reaches()) return;
    this.#busy = true;
    try {
      const since = this.#seq;
      const changes = await this.#deps.changes(since);
      if (this.#stopped) return;
      this.#apply(changes);
      this.#deps.share?.(since, changes);
    } catch {
      this.spread();
    } finally {
      this.#busy = false;
    }
    if (this.#due === Infinity) return;
    const due = this.#due;
    this.#due = Infinity;
    this.#ask(Math.max(0, due - Date.now()));
  }
}
