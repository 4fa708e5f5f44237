import type { ServerEvent } from '../api/events';
import type { Thread } from '../api/types';
import { outsideComponents } from '../lib/outside-components.svelte';
import { ChannelState, type ChannelStateDeps } from './channel.svelte';
import { ForkState, type ForkStateDeps } from './fork.svelte';
import { LruCache } from './lru-cache';
import { ThreadState, type ThreadStateDeps } from './thread.svelte';
import type { MessageWindow } from './window.svelte';

const THREADS_OPEN_MAX = 8;
const FORKS_OPEN_MAX = 8;
const CHANNELS_OPEN_MAX = 12;

/** Threads, forks, and channel lists that were opened recently: their messages stay loaded and up to date. */
export class OpenConversations {
  readonly threads: LruCache<ThreadState>;
  readonly forks: LruCache<ForkState>;
  readonly channels: LruCache<ChannelState>;
  #ws: ThreadStateDeps & ForkStateDeps & ChannelStateDeps;

  constructor(ws: ThreadStateDeps & ForkStateDeps & ChannelStateDeps) {
    this.#ws = ws;
    this.threads = new LruCache(THREADS_OPEN_MAX, (id) => outsideComponents(() => new ThreadState(id, ws)));
    this.forks = new LruCache(FORKS_OPEN_MAX, (id) => outsideComponents(() => new ForkState(id, ws)));
    this.channels = new LruCache(CHANNELS_OPEN_MAX, (id) =>
      outsideComponents(() => new ChannelState(id, ws)),
    );
  }
  /** Open conversation of this thread or fork, if any. */
  window(x: { thread_id: string | null; fork_id: string | null }): MessageWindow | undefined {
    if (x.fork_id) return this.forks.known(x.fork_id);
    return x.thread_id ? this.threads.known(x.thread_id) : undefined;
  }
  /** Open variants that begin with messages of this chat. */
  #variantsOf(chat: string): ThreadState[] {
    const isOf = ({ id }: ThreadState) => this.#ws.threads.map.get(id)?.variant_of?.thread_id === chat;
    return [...this.threads.all()].filter(isOf);
  }
  /** Applies an event about a known message to the open conversations that show it. */
  changed(x: { thread_id: string | null; fork_id: string | null }, e: ServerEvent): void {
    this.window(x)?.apply(e);
    if (x.thread_id && !x.fork_id) for (const variant of this.#variantsOf(x.thread_id)) variant.apply(e);
  }
  /** Adds a new variant to the open versions of its chat. */
  variant(thread: Thread): void {
    const base = thread.variant_of;
    if (!base) return;
    for (const open of this.threads.all())
      if (open.first === base.thread_id)
        open.addVariant({ thread_id: thread.id, message_id: base.message_id });
  }
  /** Adds a thread to its channel's list. */
  list(thread: Thread | undefined): void {
    if (thread) this.channels.known(thread.channel_id)?.put(thread);
  }
  /** Removes a thread that was deleted from its channel's list, and empties its view. */
  remove(thread: string, channel: string): void {
    this.channels.known(channel)?.remove(thread);
    this.threads.known(thread)?.gone();
    for (const open of this.threads.all()) open.removeVariant(thread);
    for (const state of this.forks.all()) if (state.fork?.thread_id === thread) state.gone();
  }
  /** Threads that are on screen or one step away. */
  shownThreads(): Set<string> {
    const shown = new Set(this.threads.keys());
    for (const list of this.channels.all())
      for (const id of [...list.ids, ...list.filtered.ids]) shown.add(id);
    for (const state of this.forks.all()) if (state.fork) shown.add(state.fork.thread_id);
    return shown;
  }
  /**
   * Drops conversations and lists that are not kept up to date. `isStale` receives the ID of the thread, fork,
   * or channel, and the ID of its channel.
   */
  dropStale(isStale: (id: string, channel: string | undefined) => boolean): void {
    const { threads, forks } = this.#ws;
    this.channels.drop((id) => isStale(id, id));
    this.threads.drop((id) => isStale(id, threads.map.get(id)?.channel_id));
    this.forks.drop((id) => isStale(id, forks.get(id)?.channel_id));
  }
  /** Loads a channel's list and open threads again, because messages were added or removed without events. */
  reloadChannel(id: string): void {
    void this.channels.known(id)?.load();
    for (const t of this.threads.all())
      if (this.#ws.threads.map.get(t.id)?.channel_id === id) void t.reload();
  }
  /** Loads everything again, except for forks that are `local`: not on the server yet. */
  reload(local: (fork: string) => boolean): void {
    for (const t of this.threads.all()) void t.reload();
    for (const f of this.forks.all()) if (!local(f.id)) void f.reload();
    for (const c of this.channels.all()) void c.load();
  }
}
