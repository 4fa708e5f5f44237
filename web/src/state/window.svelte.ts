import type { Api, MessagePage } from '../api/api';
import type { ServerEvent } from '../api/events';
import { isMissing, errorMessage } from '../api/problem';
import type { List, Message, Task } from '../api/types';
import { insert, isFrom, merge, replace, setReactions } from '../lib/messages';
import type { Reading } from './reading.svelte';

export type Loading = 'loading' | 'ready' | 'missing' | 'error';
/** Position at which a conversation opens: the first unread message, the end, or around a message. */
export type OpenAt = 'unread' | 'end' | { around: string };
export interface WindowDeps {
  readonly api: Api;
  readonly myId: string;
  learnTasks(tasks: Task[]): void;
}
/** First page of a conversation: messages, and whether there are more on either side. */
export interface Opened {
  messages: Message[];
  hasOlder: boolean;
  hasNewer: boolean;
}

/** Maximum number of messages while following the end; older ones are loaded again on scrolling up. */
const FOLLOW_MAX = 400;
/** Maximum number while reading back; the newest are dropped and loaded again on the way down. */
const WINDOW_MAX = 800;

/** Messages of one conversation, a thread or a fork: a window of the server's list, kept up to date by events. */
export abstract class MessageWindow {
  readonly id: string;
  status = $state<Loading>('loading');
  problem = $state('');
  messages = $state.raw<Message[]>([]);
  hasOlder = $state(false);
  hasNewer = $state(false);
  busy = $state<'older' | 'newer' | null>(null);
  /** Messages that arrived while the end was not loaded. */
  missed = $state(0);
  /** ID of the user's message that is being edited. */
  editing = $state<string | null>(null);
  /** True if the user is at the end, so that new messages are read immediately. */
  watching = false;
  /** Read state; null if nothing counts as unread here. */
  readonly reading: Reading | null = null;

  readonly #deps: WindowDeps;
  /**
   * Incremented when a load starts or ends, so that earlier loads, and pages next to replaced ones, are
   * dropped.
   */
  #load = 0;
  /** Events since each page in flight was requested; they are newer than the page. */
  #logs = new Set<ServerEvent[]>();

  constructor(id: string, deps: WindowDeps) {
    this.id = id;
    this.#deps = deps;
  }

  /** Loads the conversation and its messages. */
  protected abstract open(at: OpenAt): Promise<Opened>;
  protected abstract page(at: MessagePage): Promise<List<Message>>;
  /** Called when the messages of `open` are in place. */
  protected abstract opened(): void;
  /** Tasks that have rows here. */
  protected abstract tasks(): Promise<List<Task>>;

  /** Called when the conversation was deleted. */
  gone(): void {
    this.#load++; // drops a load in flight
    this.messages = [];
    this.status = 'missing';
  }
  async load(at: OpenAt = 'unread'): Promise<void> {
    if (this.status !== 'ready' || typeof at === 'object')
      this.status = this.messages.length ? this.status : 'loading';
    const load = ++this.#load;
    this.busy = null;
    const log = this.#record();
    try {
      const { messages, hasOlder, hasNewer } = await this.open(at);
      if (load !== this.#load) return;
      this.#load++;
      this.busy = null;
      this.messages = messages;
      this.hasOlder = hasOlder;
      this.hasNewer = hasNewer;
      this.missed = 0;
      this.#replay(log);
      this.opened();
      this.status = 'ready';
      this.tasks().then(
        (l) => this.#deps.learnTasks(l.data),
        () => undefined, // rows load their own task if it is missing
      );
    } catch (e) {
      if (load !== this.#load) return;
      if (isMissing(e)) this.status = 'missing';
      else if (!this.messages.length) {
        this.problem = errorMessage(e);
        this.status = 'error';
      }
    } finally {
      this.#logs.delete(log);
    }
  }
  /** First page; the end if the linked message no longer exists. */
  protected async firstPage(around: string | null): Promise<List<Message>> {
    if (!around) return this.page({});
    try {
      return await this.page({ around });
    } catch (e) {
      if (isMissing(e)) return this.page({});
      throw e;
    }
  }
  /** Reloads the messages, which may be outdated after a gap in the event log. */
  reload(): Promise<void> {
    const last = this.hasNewer ? this.messages.at(-1) : undefined;
    return this.load(last ? { around: last.id } : 'end');
  }

  async loadOlder(): Promise<void> {
    const first = this.messages[0];
    if (!first || !this.hasOlder || this.busy) return;
    await this.#more('older', { before: first.id });
  }
  async loadNewer(): Promise<void> {
    const last = this.messages.at(-1);
    if (!last || !this.hasNewer || this.busy) return;
    await this.#more('newer', { after: last.id });
  }
  async #more(way: 'older' | 'newer', at: MessagePage): Promise<void> {
    const load = this.#load;
    this.busy = way;
    this.#bound(way);
    const log = this.#record();
    try {
      const page = await this.page(at);
      if (load !== this.#load) return;
      this.messages = merge(this.messages, page.data);
      if (way === 'older') this.hasOlder = page.has_more;
      else this.hasNewer = page.has_more;
      if (!this.hasNewer) this.missed = 0;
      this.#replay(log);
    } catch {
      // Scrolling again retries.
    } finally {
      this.#logs.delete(log);
      if (load === this.#load) this.busy = null;
    }
  }
  /**
   * Drops the far end before loading more. Never together with new rows: the list compensates for one change at a
   * time.
   */
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
  /** Returns to the end from any position. */
  async toLatest(): Promise<void> {
    if (this.hasNewer) await this.load('end');
  }

  /** Called for every durable event of this conversation. */
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
    if (this.hasNewer) {
      if (!this.messages.some((m) => m.id === message.id)) this.missed++;
      return;
    }
    if (this.messages.some((m) => m.id === message.id)) return; // the response arrived first; an event is not newer
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

  /** Opens the user's newest message for editing; resolutions have their own editor. */
  editLast(): void {
    const me = this.#deps.myId;
    const editable = (m: Message) =>
      isFrom(m, me) && m.kind === 'text' && m.state === 'complete' && !m.deleted_at;
    this.editing = this.messages.findLast(editable)?.id ?? null;
  }
  /** IDs of the chats that run a message again, the first chat first; empty if there is only one version. */
  versions(_message: Message): readonly string[] {
    return [];
  }
  /** Called when the conversation is opened again while in memory. */
  enter(): void {
    if (this.status === 'ready') this.opened();
  }
  /** Called when the conversation is closed. Older messages are loaded again when it is opened next. */
  leave(): void {
    this.watching = false;
    this.editing = null;
    if (!this.hasNewer && this.messages.length > FOLLOW_MAX / 4) {
      this.messages = this.messages.slice(-FOLLOW_MAX / 4);
      this.hasOlder = true;
    }
  }
}
