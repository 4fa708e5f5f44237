import type { MessagePage } from '../api/api';
import type { List, Message, Task, Thread } from '../api/types';
import { counts, insert } from '../lib/messages';
import { MessageWindow, type Opened, type WindowHome } from './window.svelte';

export interface ThreadHome extends WindowHome {
  readonly threads: { readonly moment: number };
  learnThread(thread: Thread, moment: number): void;
  readTo(thread: string, seq: number): Promise<void>;
}

/** The main line of one thread, and how far I have read it. */
export class ThreadState extends MessageWindow {
  #home: ThreadHome;
  #readSeq = 0;
  #keepUnread = false;
  /** I started it just now: what came meanwhile came before my eyes. */
  #mine = false;

  constructor(id: string, home: ThreadHome) {
    super(id, home);
    this.#home = home;
  }

  /** I started it just now and go on writing in it. */
  begin(): void {
    this.#mine = true;
  }
  /** What is known already (a thread that I just started), shown until the page is there. */
  seed(message: Message): void {
    if (this.status !== 'loading') return;
    this.messages = insert(this.messages, message);
    this.status = 'ready';
    this.#mine = true;
  }

  protected override async open(around: string | null): Promise<Opened> {
    const { moment } = this.#home.threads;
    const [thread, page] = await Promise.all([this.#home.api.thread(this.id), this.firstPage(around)]);
    this.#home.learnThread(thread, moment);
    this.#home.learnTasks(thread.active_tasks ?? []);
    this.#readSeq = thread.read_seq ?? 0;
    return {
      messages: page.data,
      hasNewer: around !== null && thread.last_seq > (page.data.at(-1)?.seq ?? 0),
      hasOlder: around ? page.data[0]?.id !== thread.root_message_id : page.has_more,
    };
  }
  protected override page(at: MessagePage): Promise<List<Message>> {
    return this.#home.api.messages(this.id, at);
  }
  protected override tasks(): Promise<List<Task>> {
    return this.#home.api.tasks({ thread_id: this.id });
  }
  protected override opened(): void {
    if (!this.#mine) this.#mark();
    this.#mine = false;
  }
  override enter(): void {
    if (this.status === 'ready') this.#mark();
  }
  override add(message: Message): void {
    if (!message.fork_id) super.add(message);
  }

  #mark(): void {
    const first = this.messages.find((m) => m.seq > this.#readSeq && counts(m, this.#home.myId));
    // Above the very first message a rule says nothing: all of it is new.
    this.unreadFrom = !first || (first === this.messages[0] && !this.hasOlder) ? null : first.id;
  }
  override async seen(seq: number): Promise<void> {
    if (this.#keepUnread || seq <= this.#readSeq) return;
    this.#readSeq = seq;
    await this.#home.readTo(this.id, seq);
  }
  async markUnreadFrom(message: Message): Promise<void> {
    this.#keepUnread = true;
    this.#readSeq = message.seq - 1;
    this.unreadFrom = message.id;
    await this.#home.readTo(this.id, message.seq - 1);
  }
  /** Another window of mine read here. */
  readElsewhere(seq: number): void {
    this.#readSeq = Math.max(this.#readSeq, seq);
  }
  get fresh(): boolean {
    return this.#mine;
  }
  /** Next time the rule is set anew. */
  override leave(): void {
    super.leave();
    this.#keepUnread = false;
    this.unreadFrom = null;
  }
}
