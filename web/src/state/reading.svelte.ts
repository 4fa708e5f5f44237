import type { Message, Thread } from '../api/types';
import { UNREAD_MAX } from '../lib/numbers';
import { countsInPlace, mentionsMe } from '../lib/messages';

/** Unread counts of a thread, from the server. */
export interface UnreadCounts {
  unread_count: number;
  mention_count: number;
}
export interface ReadingDeps {
  readonly myId: string;
  /** Moves the read marker of a thread or fork; null if the server cannot be reached. */
  readTo(place: string, seq: number): Promise<UnreadCounts | null>;
}
/** Loaded part of the thread. */
interface Loaded {
  readonly messages: readonly Message[];
  readonly hasOlder: boolean;
}
/** Minimum number of new messages for a catch-up: fewer are read faster. */
export const CATCH_UP_MIN = 10;
type Divider = Pick<Message, 'id' | 'seq' | 'created_at'>;

/**
 * Read position of a person in a thread or fork. The marker moves to a message only when every unread message up to it has been
 * on screen for one second; jumping to the end skips messages, which stay unread.
 */
export class Reading {
  readonly thread: string;
  /** First unread message when the thread was opened. Does not change while the thread is open. */
  divider = $state.raw<Divider | null>(null);
  /** Messages since the divider, read or not. */
  since = $state.raw<UnreadCounts>({ unread_count: 0, mention_count: 0 });
  /** True after the user jumped to the end. */
  skipping = $state(false);
  /** True while the catch-up is open. */
  catchingUp = $state(false);
  #unread = $state(0);
  #visible = $state.raw<ReadonlySet<number>>(new Set());
  #seen = $state.raw<ReadonlySet<number>>(new Set());
  #readSeq = $state(0);
  /** True if all messages since the divider have been read. */
  #done = $state(true);
  /** True after the user closed the bar of unread messages. */
  #closed = $state(false);
  /** True while the thread is on screen. */
  #open = false;
  /** Last known position of the server's marker. */
  #acknowledged = 0;
  /**
   * Position to which another window moved the marker back while the thread was open here; applied when it is
   * opened next.
   */
  #back: number | null = null;
  /** True after the user marked messages as unread: they stay unread until the user leaves the thread. */
  #paused = false;
  #deps: ReadingDeps;
  #loaded: Loaded;

  /** Unread messages that are not and have not been on screen. */
  readonly unseen: number = $derived.by(() => {
    if (this.#unread >= UNREAD_MAX) return this.#unread; // a count at the server's limit is not exact, so nothing can be subtracted
    const shown = this.#pending().filter((m) => this.#seen.has(m.seq) || this.#visible.has(m.seq));
    return Math.max(0, this.#unread - shown.length);
  });
  /** True if the divider is above the view and unread messages are left. */
  readonly behind: boolean = $derived(
    this.divider !== null &&
      !this.#done &&
      this.unseen > 0 &&
      this.#visible.size > 0 &&
      Math.min(...this.#visible) > this.divider.seq,
  );

  /** True if there are enough messages since the divider for a catch-up, until the user closes the bar. */
  readonly long: boolean = $derived(
    this.divider !== null && this.since.unread_count >= CATCH_UP_MIN && !this.#closed,
  );
  /** True if nothing that the bar counts is unread any more. */
  get done(): boolean {
    return this.#done;
  }

  constructor(thread: string, deps: ReadingDeps, loaded: Loaded) {
    this.thread = thread;
    this.#deps = deps;
    this.#loaded = loaded;
  }

  get readSeq(): number {
    return this.#readSeq;
  }
  /** Called when the thread is opened; `thread` has its state from the server. */
  open(thread: Pick<Thread, 'read_seq' | 'unread_count' | 'mention_count'>, first: Divider | null): void {
    this.#readSeq = thread.read_seq ?? 0;
    this.#acknowledged = this.#readSeq;
    this.#back = null;
    const { unread_count = 0, mention_count = 0 } = thread;
    this.#start(first, { unread_count, mention_count });
  }
  /**
   * Called when the thread is opened again while in memory. Returns false if the first unread message may not
   * be loaded.
   */
  reopen(): boolean {
    if (!this.#reaches()) return false;
    const pending = this.#pending();
    const mention_count = pending.filter((m) => mentionsMe(m, this.#deps.myId)).length;
    this.#start(pending[0] ?? null, { unread_count: pending.length, mention_count });
    return true;
  }
  #start(first: Divider | null, since: UnreadCounts): void {
    this.#open = true;
    this.divider = first;
    this.since = since;
    this.#unread = since.unread_count;
    this.#done = since.unread_count === 0;
    this.#closed = false;
    this.skipping = false;
  }
  /** Applies the state from the server after a reload. */
  recount(unread: number): void {
    this.#unread = unread;
  }
  /** Sets the first unread message, which was not loaded with the thread. */
  found(message: Message): void {
    this.divider ??= message;
  }
  /** Called when the user leaves the thread. */
  close(): void {
    this.divider = null;
    this.catchingUp = false;
    this.#visible = new Set();
    this.#seen = new Set();
    this.#done = true;
    this.#paused = false;
    this.skipping = false;
    this.#open = false;
    if (this.#back !== null) this.#readSeq = this.#back;
    this.#back = null;
  }

  /** Called when a message arrives while the thread is open. */
  arrived(message: Message): void {
    const me = this.#deps.myId;
    if (message.seq <= this.#readSeq || !countsInPlace(message, me)) return;
    this.#unread++;
    const mention = mentionsMe(message, me) ? 1 : 0;
    const { unread_count, mention_count } = this.since;
    this.since = { unread_count: unread_count + 1, mention_count: mention_count + mention };
  }
  /** Sets the messages that are on screen now. */
  setVisible(visible: ReadonlySet<number>): void {
    const same = visible.size === this.#visible.size && [...visible].every((seq) => this.#visible.has(seq));
    if (!same) this.#visible = visible;
  }
  /** Records messages that have been on screen for one second. */
  async seen(seqs: readonly number[]): Promise<void> {
    const fresh = seqs.filter((seq) => seq > this.#readSeq && !this.#seen.has(seq));
    if (fresh.length) this.#seen = new Set([...this.#seen, ...fresh]);
    const mark = this.#reachable();
    if (!this.#paused && mark > this.#readSeq) await this.#mark(mark);
  }
  /** Called when the user jumps to the end, past messages that stay unread. */
  skip(): void {
    this.skipping = this.unseen > 0;
  }
  /** Marks everything up to `seq` as read. */
  async markAll(seq: number): Promise<void> {
    this.#paused = false;
    this.#closed = true;
    await this.#mark(seq);
  }
  async markUnreadFrom(message: Message): Promise<void> {
    this.#paused = true;
    this.#readSeq = message.seq - 1;
    this.divider = message;
    this.#seen = new Set();
    this.#back = null;
    const now = await this.#deps.readTo(this.thread, message.seq - 1);
    if (!now) return;
    this.#acknowledged = message.seq - 1;
    if (this.#readSeq === message.seq - 1) this.#start(message, now);
  }
  /** Applies a marker that another window of the user moved. */
  readElsewhere(seq: number): void {
    this.#acknowledged = seq;
    if (seq < this.#readSeq) return this.#movedBack(seq);
    this.#back = null;
    if (seq === this.#readSeq) return;
    const read = this.#pending().filter((m) => m.seq <= seq).length;
    this.#readSeq = seq;
    const others = this.#unread >= UNREAD_MAX ? this.#unread : Math.max(0, this.#unread - read);
    this.#left(this.#reaches() ? this.#pending().length : others);
  }

  /**
   * Applies a marker that was moved back. Visible messages stay read here, because marking them again would
   * undo the change in the other window.
   */
  #movedBack(seq: number): void {
    if (this.#open) this.#back = seq;
    else this.#readSeq = seq;
  }

  /** Oldest message at which to continue reading, if it is loaded. */
  get next(): Message | null {
    return this.#reaches() ? (this.#pending().find((m) => !this.#seen.has(m.seq)) ?? null) : null;
  }
  #pending(): Message[] {
    return this.#loaded.messages.filter((m) => m.seq > this.#readSeq && countsInPlace(m, this.#deps.myId));
  }
  /** Checks whether no unread message is older than the loaded ones. */
  #reaches(): boolean {
    const { messages, hasOlder } = this.#loaded;
    const first = messages[0];
    if (!hasOlder || !first || first.seq <= this.#readSeq) return true;
    const { divider } = this;
    return divider !== null && divider.seq > this.#readSeq && messages.some((m) => m.id === divider.id);
  }
  /** `seq` of the last message before the first unseen one. */
  #reachable(): number {
    let mark = this.#readSeq;
    if (!this.#reaches()) return mark;
    for (const m of this.#loaded.messages) {
      if (m.seq <= mark) continue;
      if (countsInPlace(m, this.#deps.myId) && !this.#seen.has(m.seq)) break;
      mark = m.seq;
    }
    return mark;
  }
  async #mark(seq: number): Promise<void> {
    this.#readSeq = seq;
    this.#back = null;
    const now = await this.#deps.readTo(this.thread, seq);
    if (!now) {
      if (this.#readSeq === seq) this.#readSeq = this.#acknowledged; // the next check tries again
      return;
    }
    this.#acknowledged = seq;
    this.#seen = new Set([...this.#seen].filter((s) => s > this.#readSeq));
    this.#left(now.unread_count);
  }
  #left(unread: number): void {
    this.#unread = unread;
    if (unread > 0) return;
    this.#done = true;
    this.skipping = false;
  }
}
