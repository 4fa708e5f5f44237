import { untrack } from 'svelte';
import type { ServerEvent } from '../api/events';
import { FollowingApi, type FollowedConversation, type FollowingFilter } from '../api/following';
import { errorMessage } from '../api/problem';
import type { Fork, Thread } from '../api/types';
import { isFrom } from '../lib/messages';
import type { WorkspaceState } from '../state/workspace.svelte';

/** A conversation of the list: a followed thread or fork, or a chat with its variants. */
export type Followed =
  | { kind: 'thread' | 'chat'; id: string; thread: Thread; variants: readonly Thread[] }
  | { kind: 'fork'; id: string; fork: Fork };

/** Delay of a reload, so that changes that come together need one request. */
const RELOAD_MS = 400;

/** Followed conversations and chats, latest activity first, kept up to date by events. */
export class Following {
  status = $state<'loading' | 'ready' | 'error'>('loading');
  problem = $state('');
  busy = $state(false);
  cursor = $state<string | null>(null);
  /** Rows of the server, with those on top in which something happened since. */
  #found = $state.raw<readonly FollowedConversation[]>([]);
  #filter: FollowingFilter = {};
  #ws: WorkspaceState;
  #api: FollowingApi;
  #loads = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stop: () => void;

  readonly rows: readonly Followed[] = $derived(
    this.#found.flatMap((x): Followed[] => {
      if (x.fork) return [{ kind: 'fork', id: x.fork.id, fork: this.#ws.forks.get(x.fork.id) ?? x.fork }];
      if (!x.thread || x.kind === 'fork') return [];
      const thread = this.#ws.threads.map.get(x.thread.id) ?? x.thread;
      const variants = x.variants.map((v) => this.#ws.threads.map.get(v.id) ?? v);
      return [{ kind: x.kind, id: x.thread.id, thread, variants }];
    }),
  );

  constructor(ws: WorkspaceState) {
    this.#ws = ws;
    this.#api = ws.api.part(FollowingApi);
    this.#stop = ws.onEvent((e) => this.#onEvent(e));
  }
  dispose(): void {
    clearTimeout(this.#timer);
    this.#loads++;
    this.#stop();
  }

  async load(filter: FollowingFilter = this.#filter): Promise<void> {
    this.#filter = filter;
    const load = ++this.#loads;
    const versions = this.#versions();
    try {
      const page = await this.#api.list(filter);
      if (load !== this.#loads) return;
      this.#learn(page.data, versions);
      this.#found = page.data;
      this.cursor = page.next_cursor ?? null;
      this.status = 'ready';
      this.problem = '';
    } catch (e) {
      if (load !== this.#loads) return;
      this.problem = errorMessage(e);
      if (this.status === 'loading') this.status = 'error';
    }
  }
  async loadMore(): Promise<void> {
    if (!this.cursor || this.busy) return;
    this.busy = true;
    const load = this.#loads;
    const versions = this.#versions();
    try {
      const page = await this.#api.list(this.#filter, this.cursor);
      if (load !== this.#loads) return;
      this.#learn(page.data, versions);
      const known = new Set(this.#found.map(keyOf));
      this.#found = [...this.#found, ...page.data.filter((x) => !known.has(keyOf(x)))];
      this.cursor = page.next_cursor ?? null;
    } catch (e) {
      this.problem = errorMessage(e);
    } finally {
      this.busy = false;
    }
  }
  /** Loads the list again soon, because a conversation was followed or left. */
  soon(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.load(), RELOAD_MS);
  }

  #versions() {
    return { threads: this.#ws.threads.version, forks: this.#ws.forks.version };
  }
  #learn(data: readonly FollowedConversation[], versions: { threads: number; forks: number }): void {
    for (const { thread, fork, variants } of data) {
      if (thread) this.#ws.threads.learn(thread, versions.threads);
      for (const variant of variants) this.#ws.threads.learn(variant, versions.threads);
      if (fork) this.#ws.forks.learn(fork, versions.forks);
    }
  }
  #onEvent(e: ServerEvent): void {
    untrack(() => {
      if (e.type === 'fork.created' && e.data.fork.created_by === this.#ws.myId) return this.soon();
      if (e.type === 'thread.deleted') {
        const gone = e.data.thread_id;
        const left = this.#found.filter((x) => x.thread?.id !== gone && x.fork?.thread_id !== gone);
        this.#found = left.map((x) =>
          x.variants.some((v) => v.id === gone)
            ? { ...x, variants: x.variants.filter((v) => v.id !== gone) }
            : x,
        );
        return;
      }
      if (e.type !== 'message.created' || this.status !== 'ready') return;
      const m = e.data.message;
      const id = m.fork_id ?? m.thread_id;
      const at = this.#found.findIndex((x) => keyOf(x) === id || x.variants.some((v) => v.id === id));
      if (at > 0) this.#found = [this.#found[at]!, ...this.#found.toSpliced(at, 1)];
      const { myId } = this.#ws;
      // One's own message and a mention follow a conversation.
      const follows = isFrom(m, myId) || m.mentions.some((x) => x.type === 'user' && x.id === myId);
      if (at < 0 && follows) this.soon();
    });
  }
}
const keyOf = (x: FollowedConversation): string => x.fork?.id ?? x.thread?.id ?? '';
