import type { MessagePage } from '../api/api';
import type { ChatVariant, List, Message, Task, Thread } from '../api/types';
import { BEFORE_ALL_SEQS, insert } from '../lib/messages';
import { Reading, type ReadingDeps } from './reading.svelte';
import { MessageWindow, type OpenAt, type Opened, type WindowDeps } from './window.svelte';

export interface ThreadStateDeps extends WindowDeps, ReadingDeps {
  readonly threads: { readonly version: number; readonly map: ReadonlyMap<string, Thread> };
  learnThread(thread: Thread, version: number): void;
}

/** Loaded messages of the thread itself, without those of the first chat with which a variant begins. */
class OwnMessages {
  #window: MessageWindow;
  #isVariant: () => boolean;
  constructor(window: MessageWindow, isVariant: () => boolean) {
    this.#window = window;
    this.#isVariant = isVariant;
  }
  get messages(): readonly Message[] {
    const { id, messages } = this.#window;
    return this.#isVariant() ? messages.filter((m) => m.thread_id === id) : messages;
  }
  get hasOlder(): boolean {
    const { id, messages, hasOlder } = this.#window;
    return hasOlder && (!this.#isVariant() || messages[0]?.thread_id === id);
  }
}

/** Main line of one thread, and its read state. */
export class ThreadState extends MessageWindow {
  override readonly reading: Reading;
  /** Variants of the chat, or of the first chat, oldest first. */
  variants = $state.raw<readonly ChatVariant[]>([]);
  #deps: ThreadStateDeps;
  /** True while the thread is open and its divider is set. */
  #entered = false;
  /** True if the user has just started the thread, so that its messages so far were seen. */
  #mine = false;

  constructor(id: string, deps: ThreadStateDeps) {
    super(id, deps);
    this.#deps = deps;
    this.reading = new Reading(id, deps, new OwnMessages(this, () => this.#variantOf !== null));
  }
  get #variantOf(): Thread['variant_of'] {
    return this.#deps.threads.map.get(this.id)?.variant_of ?? null;
  }
  /** The first chat; this thread unless it is a variant. */
  get first(): string {
    return this.#variantOf?.thread_id ?? this.id;
  }

  /** Called for a thread that the user just started and continues to write in. */
  begin(): void {
    this.#mine = true;
  }
  /** Adds a known message of a thread that the user has just started; it is shown until the page has loaded. */
  seed(message: Message): void {
    if (this.status !== 'loading') return;
    this.messages = insert(this.messages, message);
    this.status = 'ready';
  }

  protected override async open(at: OpenAt): Promise<Opened> {
    const { version } = this.#deps.threads;
    const linked = typeof at === 'object' ? at.around : null;
    const [thread, end] = await Promise.all([this.#deps.api.thread(this.id), this.firstPage(linked)]);
    this.#deps.learnThread(thread, version);
    this.#deps.learnTasks(thread.active_tasks ?? []);
    this.variants = thread.variants;
    if (thread.variant_of) void this.#learnFirst(thread.variant_of.thread_id);
    const first = thread.first_unread_id;
    const away = at === 'unread' && !this.#mine && first !== null && !end.data.some((m) => m.id === first);
    const page = away ? await this.firstPage(first) : end;
    if (!this.#entered && !this.#mine) {
      this.reading.open(thread, page.data.find((m) => m.id === first) ?? null);
      if (first && !this.reading.divider) void this.#findDivider(first);
    } else if (this.#mine) this.reading.open({ read_seq: thread.read_seq ?? 0 }, null);
    else this.reading.recount(thread.unread_count ?? 0);
    const { data } = page;
    const end_seq = data.at(-1)?.seq ?? BEFORE_ALL_SEQS;
    return {
      messages: data,
      hasNewer: (linked !== null || away) && thread.last_seq > end_seq,
      hasOlder:
        (linked !== null || away) && !thread.variant_of
          ? data[0]?.id !== thread.root_message_id
          : page.has_more,
    };
  }
  /** Loads the first chat, whose title a variant has. */
  async #learnFirst(id: string): Promise<void> {
    const { threads, api } = this.#deps;
    if (threads.map.has(id)) return;
    const { version } = threads;
    try {
      this.#deps.learnThread(await api.thread(id), version);
    } catch {
      // Until it is loaded, the variant is shown with its first line.
    }
  }
  override versions(m: Message): readonly string[] {
    if (!this.variants.length || m.fork_id) return [];
    const base = this.#variantOf;
    const root = this.#deps.threads.map.get(this.id)?.root_message_id;
    const message = base && m.id === root ? base.message_id : m.thread_id === this.first ? m.id : null;
    const again = this.variants.filter((v) => v.message_id === message);
    return again.length ? [this.first, ...again.map((v) => v.thread_id)] : [];
  }
  /** Called when a variant of the first chat was made. */
  addVariant(variant: ChatVariant): void {
    if (this.variants.some((v) => v.thread_id === variant.thread_id)) return;
    this.variants = [...this.variants, variant];
  }
  /** Called when a thread was deleted. */
  removeVariant(thread: string): void {
    if (this.variants.some((v) => v.thread_id === thread))
      this.variants = this.variants.filter((v) => v.thread_id !== thread);
  }
  /** Loads the first unread message if the linked message that was opened is far from it. */
  async #findDivider(id: string): Promise<void> {
    try {
      this.reading.found(await this.#deps.api.message(id));
    } catch {
      // Without the divider, messages are marked as read as they are shown.
    }
  }
  protected override page(at: MessagePage): Promise<List<Message>> {
    return this.#deps.api.messages(this.id, at);
  }
  protected override tasks(): Promise<List<Task>> {
    return this.#deps.api.tasks({ thread_id: this.id });
  }
  protected override opened(): void {
    this.#entered = true;
    this.#mine = false;
  }
  /**
   * Called when the thread is opened. Events keep it up to date while it is in memory, but the first unread
   * message may not be loaded.
   */
  override enter(): void {
    if (this.status !== 'ready') return;
    if (this.#mine) {
      this.#entered = true;
      return;
    }
    if (!this.hasNewer && this.reading.reopen()) return this.opened();
    this.messages = [];
    this.status = 'loading';
    void this.load();
  }
  override add(message: Message): void {
    if (message.fork_id) return;
    if (this.#entered && !this.messages.some((m) => m.id === message.id)) this.reading.arrived(message);
    super.add(message);
  }

  markUnreadFrom(message: Message): Promise<void> {
    return this.reading.markUnreadFrom(message);
  }
  markAllRead(): Promise<void> {
    const known = this.#deps.threads.map.get(this.id)?.last_seq ?? BEFORE_ALL_SEQS;
    return this.reading.markAll(Math.max(known, this.messages.at(-1)?.seq ?? BEFORE_ALL_SEQS));
  }
  /** The message at which to continue reading, loaded if needed. */
  async toUnread(): Promise<string | null> {
    if (this.reading.next) return this.reading.next.id;
    const { first_unread_id } = await this.#deps.api.thread(this.id);
    if (!first_unread_id) return null;
    await this.load({ around: first_unread_id });
    return first_unread_id;
  }
  get fresh(): boolean {
    return this.#mine;
  }
  override leave(): void {
    super.leave();
    this.reading.close();
    this.#entered = false;
    this.#mine = false;
  }
}
