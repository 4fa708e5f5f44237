import type { Api } from '../api/api';
import type { ServerEvent } from '../api/events';
import { isMissing, say } from '../api/problem';
import type { Message, Task, Thread } from '../api/types';
import { counts, insert, isFrom, merge, replace, setReactions } from '../lib/messages';

export type Loading = 'loading' | 'ready' | 'missing' | 'error';
export interface ThreadHome {
  readonly api: Api;
  readonly myId: string;
  learnThread(thread: Thread): void;
  learnTasks(tasks: Task[]): void;
  readTo(thread: string, seq: number): Promise<void>;
}

/** Kept at most while following the end; older ones are read again on scrolling up. */
const FOLLOW_MAX = 400;
/** Kept at most while reading back; then the newest are let go and read again on the way down. */
const WINDOW_MAX = 800;

/** The messages of one thread: a window of what the server has, kept right by events. */
export class ThreadState {
  readonly id: string;
  status = $state<Loading>('loading');
  problem = $state('');
  messages = $state.raw<Message[]>([]);
  hasOlder = $state(false);
  hasNewer = $state(false);
  busy = $state<'older' | 'newer' | null>(null);
  /** The first message that was unread when the thread was opened; it does not move while open. */
  unreadFrom = $state<string | null>(null);
  /** Messages that came while the end was not loaded. */
  missed = $state(0);
  /** The message of mine that is being edited. */
  editing = $state<string | null>(null);
  /** The reader looks at the end right now, so what comes is read at once. */
  watching = false;

  #home: ThreadHome;
  #readSeq = 0;
  #keepUnread = false;
  /** I started it just now: what came meanwhile came before my eyes. */
  #mine = false;
  /** For each page under way the events since it was asked for; they are newer than the page. */
  #logs = new Set<ServerEvent[]>();

  constructor(id: string, home: ThreadHome) {
    this.id = id;
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

  async load(around: string | null = null): Promise<void> {
    const { api } = this.#home;
    if (this.status !== 'ready' || around) this.status = this.messages.length ? this.status : 'loading';
    const log = this.#record();
    try {
      const [thread, page] = await Promise.all([
        api.thread(this.id),
        api.messages(this.id, around ? { around } : {}).catch((e: unknown) => {
          if (around && isMissing(e)) return api.messages(this.id); // the linked message is gone: show the end
          throw e;
        }),
      ]);
      this.#home.learnThread(thread);
      this.#home.learnTasks(thread.active_tasks ?? []);
      this.#readSeq = thread.read_seq ?? 0;
      const newest = page.data.at(-1)?.seq ?? 0;
      this.messages = page.data;
      this.hasNewer = around !== null && thread.last_seq > newest;
      this.hasOlder = around ? page.data[0]?.id !== thread.root_message_id : page.has_more;
      this.missed = 0;
      this.#replay(log);
      if (!this.#mine) this.#mark();
      this.#mine = false;
      this.status = 'ready';
      this.#home.api.tasks({ thread_id: this.id }).then(
        (l) => this.#home.learnTasks(l.data),
        () => undefined, // rows ask for their own task when it is missing
      );
    } catch (e) {
      if (isMissing(e)) this.status = 'missing';
      else if (!this.messages.length) {
        this.problem = say(e);
        this.status = 'error';
      }
    } finally {
      this.#logs.delete(log);
    }
  }
  /** After a gap in the event log: what is here may be stale. */
  reload(): Promise<void> {
    return this.load(this.hasNewer ? (this.messages.at(-1)?.id ?? null) : null);
  }

  async loadOlder(): Promise<void> {
    const first = this.messages[0];
    if (!first || !this.hasOlder || this.busy) return;
    await this.#page('older', { before: first.id });
  }
  async loadNewer(): Promise<void> {
    const last = this.messages.at(-1);
    if (!last || !this.hasNewer || this.busy) return;
    await this.#page('newer', { after: last.id });
  }
  async #page(way: 'older' | 'newer', at: { before?: string; after?: string }): Promise<void> {
    this.busy = way;
    this.#bound(way);
    const log = this.#record();
    try {
      const page = await this.#home.api.messages(this.id, at);
      this.messages = merge(this.messages, page.data);
      if (way === 'older') this.hasOlder = page.has_more;
      else this.hasNewer = page.has_more;
      if (!this.hasNewer) this.missed = 0;
      this.#replay(log);
    } catch {
      // Scrolling again tries again.
    } finally {
      this.#logs.delete(log);
      this.busy = null;
    }
  }
  /** Lets go of the far end before reading on. Never together with new rows: the list keeps its place by one change at a time. */
  #bound(way: 'older' | 'newer'): void {
    if (this.messages.length <= WINDOW_MAX) return;
    if (way === 'older') {
      this.messages = this.messages.slice(0, WINDOW_MAX);
      this.hasNewer = true;
    } else {
      this.messages = this.messages.slice(-WINDOW_MAX);
      this.hasOlder = true;
    }
  }
  /** Back to the end, wherever the window stood. */
  async toLatest(): Promise<void> {
    if (this.hasNewer) await this.load();
  }

  /** Called for every durable event of this thread. */
  apply(e: ServerEvent): void {
    for (const log of this.#logs) log.push(e);
    this.#apply(e);
  }
  #apply(e: ServerEvent): void {
    switch (e.type) {
      case 'message.created':
        return this.add(e.data.message);
      case 'message.updated':
      case 'message.deleted':
        this.messages = replace(this.messages, e.data.message);
        return;
      case 'reaction.added':
      case 'reaction.removed':
        this.messages = setReactions(this.messages, e.data.message_id, e.data.reactions);
    }
  }
  add(message: Message): void {
    if (message.fork_id) return;
    if (this.hasNewer) {
      if (!this.messages.some((m) => m.id === message.id)) this.missed++;
      return;
    }
    if (this.messages.some((m) => m.id === message.id)) return; // my own answer came first; an event is not newer
    let list = insert(this.messages, message);
    if (this.watching && list.length > FOLLOW_MAX) {
      list = list.slice(-FOLLOW_MAX / 2);
      this.hasOlder = true;
    }
    this.messages = list;
  }
  replace(message: Message): void {
    this.messages = replace(this.messages, message);
  }
  react(id: string, reactions: Message['reactions']): void {
    this.messages = setReactions(this.messages, id, reactions);
  }

  #record(): ServerEvent[] {
    const log: ServerEvent[] = [];
    this.#logs.add(log);
    return log;
  }
  #replay(log: readonly ServerEvent[]): void {
    for (const e of log) this.#apply(e);
  }
  #mark(): void {
    const first = this.messages.find((m) => m.seq > this.#readSeq && counts(m, this.#home.myId));
    // Above the very first message a rule says nothing: all of it is new.
    this.unreadFrom = !first || (first === this.messages[0] && !this.hasOlder) ? null : first.id;
  }

  /** Seen on screen for a second. */
  async seen(seq: number): Promise<void> {
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
  editLast(): void {
    const me = this.#home.myId;
    this.editing = this.messages.findLast((m) => isFrom(m, me) && !m.deleted_at)?.id ?? null;
  }
  get fresh(): boolean {
    return this.#mine;
  }
  /** The thread is left: next time the rule is set anew. */
  leave(): void {
    this.watching = false;
    this.editing = null;
    this.#keepUnread = false;
    this.unreadFrom = null;
    if (!this.hasNewer && this.messages.length > FOLLOW_MAX / 4) {
      this.messages = this.messages.slice(-FOLLOW_MAX / 4);
      this.hasOlder = true;
    }
  }
  /** Opened again while still in memory. */
  enter(): void {
    if (this.status === 'ready') this.#mark();
  }
}
