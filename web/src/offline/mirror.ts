import type { ServerEvent } from '../api/events';
import type { InboxChanges, InboxItem } from '../api/inbox';
import type { Message, Thread } from '../api/types';
import type { ReadPlace } from '../inbox/feed.svelte';
import { afterReading, newestFirst } from '../inbox/stacks';
import { insert, replace, setReactions } from '../lib/messages';
import { Threads } from '../state/threads.svelte';
import type { CopyChange, StoredConversation, StoredCopy, StoredList } from './database';

export const CONVERSATIONS_MAX = 20;
export const MESSAGES_MAX = 200;
export const ITEMS_MAX = 200;
export const COPY_BYTES_MAX = 50 * 1024 * 1024;
const LISTS_MAX = 20;
const LISTED_MAX = 30;

/** Upper bound of the bytes that a value takes: UTF-16, as browsers store text. */
const bytesOf = (value: unknown): number => JSON.stringify(value).length * 2;

interface MirrorDeps {
  readonly myId: string;
  /** Loads a thread that moved up in a list, and is not known. */
  loadThread(id: string): Promise<Thread>;
}

/**
 * Conversations that were opened last, lists of threads, and inbox items, kept at the event that was applied last, even if their
 * screens are closed.
 */
export class Mirror {
  /** Last opened last. */
  readonly conversations = new Map<string, StoredConversation>();
  /** Last opened last. */
  readonly lists = new Map<string, Set<string>>();
  readonly threads = new Threads(() => this.#keptThreads());
  items: Map<string, InboxItem> | null = null;
  #deps: MirrorDeps;
  #changed = new Set<string>();
  /** True if the next write replaces what is stored. */
  #isComplete = false;
  #removed = new Set<string>();
  #bytes = new Map<string, number>();

  constructor(deps: MirrorDeps) {
    this.#deps = deps;
  }

  load({ state, conversations }: StoredCopy): void {
    this.clear();
    const byId = new Map(conversations.map((c) => [c.id, c]));
    for (const id of state.order) {
      const found = byId.get(id);
      if (found) this.conversations.set(id, found);
    }
    for (const { channel_id, threads } of state.lists) this.lists.set(channel_id, new Set(threads));
    for (const thread of state.threads) this.threads.learn(thread, this.threads.version);
    this.threads.setMuted(state.snapshot.muted_threads);
    this.items = state.items && new Map(state.items.map((i) => [i.id, i]));
  }
  clear(): void {
    for (const id of this.conversations.keys()) this.#forget(id);
    this.lists.clear();
    this.threads.clear();
    this.items = null;
  }

  apply(e: ServerEvent): void {
    switch (e.type) {
      case 'thread.created':
      case 'thread.updated': {
        const { thread } = e.data;
        const list = this.lists.get(thread.channel_id);
        if (e.type === 'thread.created') list?.add(thread.id);
        if (list?.has(thread.id) || this.conversations.has(thread.id)) this.threads.put(thread);
        return;
      }
      case 'thread.deleted': {
        const { thread_id, channel_id } = e.data;
        this.lists.get(channel_id)?.delete(thread_id);
        this.threads.remove(thread_id);
        for (const [id, { messages }] of this.conversations)
          if (id === thread_id || messages[0]?.thread_id === thread_id) this.#forget(id);
        return this.#dropItems((i) => i.thread_id === thread_id);
      }
      case 'message.created': {
        const m = e.data.message;
        this.#patch(m.fork_id ?? m.thread_id, (list) => insert(list, m));
        if (!m.fork_id) this.#moved(m);
        return;
      }
      case 'message.updated':
      case 'message.deleted': {
        const m = e.data.message;
        this.threads.changed(m);
        if (e.type === 'message.deleted') this.#dropItems((i) => i.message_id === m.id);
        return this.#patch(m.fork_id ?? m.thread_id, (list) => replace(list, m));
      }
      case 'reaction.added':
      case 'reaction.removed': {
        const { message_id, reactions } = e.data;
        const place = e.fork_id ?? e.thread_id;
        if (place) this.#patch(place, (list) => setReactions(list, message_id, reactions));
        return;
      }
      case 'channel.imported':
        return this.#forgetChannel(e.data.channel_id);
      case 'channel.member_removed': {
        const { channel, user_id } = e.data;
        if (user_id !== this.#deps.myId) return;
        this.#forgetChannel(channel.id);
        return this.#dropItems((i) => i.channel_id === channel.id);
      }
    }
  }
  #dropItems(which: (item: InboxItem) => boolean): void {
    for (const [id, item] of this.items ?? []) if (which(item)) this.items?.delete(id);
  }
  /** Drops the conversations and the list of a channel, until it is opened again. */
  #forgetChannel(channel: string): void {
    for (const c of this.conversations.values()) if (c.channel_id === channel) this.#forget(c.id);
    this.lists.delete(channel);
  }
  #patch(id: string, change: (list: Message[]) => Message[]): void {
    const known = this.conversations.get(id);
    if (!known) return;
    const messages = change(known.messages);
    if (messages !== known.messages) this.#set({ ...known, messages });
  }
  #moved(m: Message): void {
    if (this.threads.map.has(m.thread_id)) {
      this.threads.created(m, this.#deps.myId);
      this.lists.get(m.channel_id)?.add(m.thread_id);
      return;
    }
    if (!this.lists.has(m.channel_id)) return;
    const { version } = this.threads;
    this.#deps.loadThread(m.thread_id).then(
      (thread) => {
        this.threads.learn(thread, version);
        this.lists.get(m.channel_id)?.add(thread.id);
      },
      () => void this.lists.delete(m.channel_id), // it would have a gap
    );
  }

  /** Stores the end of a conversation that is open; older messages that are stored stay. */
  learn(opened: StoredConversation): void {
    const known = this.conversations.get(opened.id);
    const first = opened.messages[0];
    const at = first ? (known?.messages.findIndex((m) => m.id === first.id) ?? -1) : -1;
    const joined =
      known && at > 0
        ? {
            ...opened,
            messages: [...known.messages.slice(0, at), ...opened.messages],
            hasOlder: known.hasOlder,
          }
        : opened;
    const isSame =
      known?.messages.length === Math.min(joined.messages.length, MESSAGES_MAX) &&
      known.messages.every((m, i) => m === joined.messages.at(i - known.messages.length));
    this.conversations.delete(opened.id); // the last opened goes last
    if (isSame) this.conversations.set(opened.id, known);
    else this.#set(joined);
    const [oldest] = this.conversations.keys();
    if (oldest && this.conversations.size > CONVERSATIONS_MAX) this.#forget(oldest);
  }
  learnList({ channel_id, threads }: StoredList): void {
    this.lists.delete(channel_id);
    this.lists.set(channel_id, new Set(threads.slice(0, LISTED_MAX)));
    const [oldest] = this.lists.keys();
    if (oldest && this.lists.size > LISTS_MAX) this.lists.delete(oldest);
  }
  learnItems({ data, resync }: Pick<InboxChanges, 'data' | 'resync'>): void {
    if (resync) this.items = null;
    if (!this.items) return;
    for (const item of data) {
      // A reply that is not open is sent for any conversation in which something happened.
      if (item.reason === 'reply' && item.state === 'done' && !this.items.has(item.id)) continue;
      this.items.set(item.id, item);
    }
    const spare = [...this.items.values()].sort(newestFirst).slice(ITEMS_MAX);
    for (const { id } of spare) this.items.delete(id);
  }
  /** Closes items of a place that was read, for which there may be no change. */
  readItems(place: ReadPlace, seq: number): void {
    for (const [id, item] of this.items ?? []) this.items?.set(id, afterReading(item, place, seq));
  }
  /** Drops channels whose events do not arrive. */
  keepOnly(follows: (channel: string) => boolean): void {
    for (const c of this.conversations.values()) if (!follows(c.channel_id)) this.#forget(c.id);
    for (const id of this.lists.keys()) if (!follows(id)) this.lists.delete(id);
  }

  // --- writing ---

  /** Threads of the lists, by latest activity, and of the conversations. */
  listed(channel: string): Thread[] {
    return [...(this.lists.get(channel) ?? [])]
      .flatMap((id) => this.threads.map.get(id) ?? [])
      .sort((a, b) => b.last_seq - a.last_seq)
      .slice(0, LISTED_MAX);
  }
  /** Also drops what moved below the part of a list that is kept. */
  storedLists(): StoredList[] {
    return [...this.lists.keys()].map((channel_id) => {
      const threads = this.listed(channel_id).map((t) => t.id);
      this.lists.set(channel_id, new Set(threads));
      return { channel_id, threads };
    });
  }
  storedThreads(): Thread[] {
    return [...this.#keptThreads()].flatMap((id) => this.threads.map.get(id) ?? []);
  }
  #keptThreads(): Set<string> {
    const kept = new Set(this.conversations.keys());
    for (const list of this.lists.values()) for (const id of list) kept.add(id);
    return kept;
  }
  /** Drops the conversations that were opened first, until everything with `state` fits. Returns false if it cannot. */
  fit(state: unknown, bytesMax = COPY_BYTES_MAX): boolean {
    let total = bytesOf(state);
    for (const [id, c] of this.conversations) {
      if (!this.#bytes.has(id)) this.#bytes.set(id, bytesOf(c));
      total += this.#bytes.get(id)!;
    }
    for (const id of this.conversations.keys()) {
      if (total <= bytesMax) break;
      total -= this.#bytes.get(id)!;
      this.#forget(id);
    }
    return total <= bytesMax;
  }
  /** Conversations that changed, and those that were dropped, since the last call. */
  takeChanges(): Omit<CopyChange, 'state'> {
    const changed = [...this.#changed].flatMap((id) => this.conversations.get(id) ?? []);
    const removed = [...this.#removed];
    const isComplete = this.#isComplete;
    this.#changed.clear();
    this.#removed.clear();
    this.#isComplete = false;
    return { changed, removed, isComplete };
  }
  /** Makes the next write store everything again, because the last one failed, or another window wrote before. */
  touchAll(): void {
    this.#isComplete = true;
    for (const id of this.conversations.keys()) this.#changed.add(id);
  }
  #set(conversation: StoredConversation): void {
    const { id, messages, hasOlder } = conversation;
    this.conversations.set(id, {
      ...conversation,
      messages: messages.slice(-MESSAGES_MAX),
      hasOlder: hasOlder || messages.length > MESSAGES_MAX,
    });
    this.#changed.add(id);
    this.#removed.delete(id);
    this.#bytes.delete(id);
  }
  #forget(id: string): void {
    this.conversations.delete(id);
    this.#changed.delete(id);
    this.#removed.add(id);
    this.#bytes.delete(id);
  }
}
