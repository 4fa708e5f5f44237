import type { Api } from '../api/api';
import type { ServerEvent } from '../api/events';
import { InboxApi, type InboxChanges } from '../api/inbox';
import { ApiError, isMissing, NotStored, Unreachable } from '../api/problem';
import type { Account, Message, Snapshot, Thread } from '../api/types';
import type { ReadPlace } from '../inbox/feed.svelte';
import type { KeyValueStore } from '../lib/storage';
import type { WorkspaceState } from '../state/workspace.svelte';
import { Answers } from './answers';
import { Changes, type StoredChange } from './changes';
import type { CopyDatabase, StoredConversation, StoredList } from './database';
import { eraseCopy, isCopied, isExpired, keepsMessages, setKept, watchKept } from './kept';
import { ITEMS_MAX, Mirror } from './mirror';
import { snapshotOf } from './snapshot-of';
import type { WindowMessage, Windows } from './windows';

const WRITE_AFTER_MS = 2000;
/** Delay of the next write after the browser rejected one, possibly because its storage is full. */
const WRITE_AGAIN_MS = 30_000;
const SEND_AGAIN_MS = 30_000;
/** Limit for reading the copy at a start: browsers may let a read wait for a window that does not respond. */
const READ_WITHIN_MS = 5000;
/** Time for the answers of other windows. */
const VISIBLE_WITHIN_MS = 100;
const ITEMS_AT_ONCE = 50;

export interface DeviceCopyDeps {
  /** User and workspace, as `USER.WS`. */
  scope: string;
  store: KeyValueStore;
  database: CopyDatabase;
  windows: Windows;
  /** The server itself, never the copy. */
  api: Api;
  account(): Account | null;
  /** True while this window is on screen. */
  isVisible(): boolean;
  now?(): number;
}

/** Conversations and lists that are open in a window, and their threads. */
interface Captured {
  conversations: StoredConversation[];
  lists: StoredList[];
  threads: Thread[];
}

/**
 * Copy of a workspace on this device: the state at exactly one event, which the leading window writes. Without a connection, it
 * answers requests in place of the server, and keeps changes until the server can be reached.
 */
export class DeviceCopy {
  readonly mirror: Mirror;
  readonly changes: Changes;
  #ws: WorkspaceState;
  #deps: DeviceCopyDeps;
  #answers: Answers;
  #now: () => number;
  /** True from a start with the copy until the first event or connection: until then, the copy is complete. */
  #isFresh = false;
  #isDirty = false;
  /** True after the copy was erased: until the server gives access again, nothing is written. */
  #isErased = false;
  /** True while the person has turned copies off. */
  #isOff: boolean;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #sendTimer: ReturnType<typeof setTimeout> | null = null;
  #writing: Promise<void> = Promise.resolve();
  #sending: Promise<void> | null = null;
  #stopped = false;
  #wasLeader = false;
  #lastLiveAt: number | null = null;
  /** Messages by conversation, as they were last sent to the other windows. */
  #shared = new Map<string, readonly Message[]>();
  #readsItems = false;
  #cleanups: (() => void)[];

  constructor(ws: WorkspaceState, deps: DeviceCopyDeps) {
    this.#ws = ws;
    this.#deps = deps;
    this.#now = deps.now ?? Date.now;
    this.#isOff = !keepsMessages(deps.store);
    this.changes = new Changes(deps.store, deps.scope, this.#now);
    const user = deps.scope.split('.')[0]!;
    this.mirror = new Mirror({ myId: user, loadThread: (id) => deps.api.thread(id) });
    this.#answers = new Answers(ws, this.mirror, this.changes);
    const follower = {
      changed: (changes: InboxChanges) => this.#itemsChanged(changes),
      read: (place: ReadPlace, seq: number) => {
        this.mirror.readItems(place, seq);
        this.#touch();
      },
    };
    this.#cleanups = [
      ws.onEvent((e) => this.#apply(e)),
      ws.inbox.follow(follower),
      deps.windows.listen((m) => this.#onMessage(m)),
      watchKept(
        deps.store,
        deps.scope,
        () => this.switched(),
        () => this.#forget(),
      ),
    ];
  }
  dispose(): void {
    this.#stopped = true;
    for (const timer of [this.#timer, this.#sendTimer]) clearTimeout(timer ?? undefined);
    for (const cleanup of this.#cleanups) cleanup();
  }

  onDispose(cleanup: () => void): void {
    this.#cleanups.push(cleanup);
  }

  // --- start ---

  /** Starts with the copy: its snapshot is passed to `apply`, and returned; null if there is none. */
  async restore(apply: (snapshot: Snapshot) => void): Promise<Snapshot | null> {
    const { store, scope, database } = this.#deps;
    if (!keepsMessages(store) || !isCopied(store, scope)) return null;
    const copy = await Promise.race([
      database.read().catch(() => null),
      new Promise<null>((resolve) => setTimeout(() => resolve(null), READ_WITHIN_MS)),
    ]);
    if (!copy || this.#stopped || !isCopied(store, scope)) return null; // erased in the meantime
    if (copy.state.snapshot.me.id !== scope.split('.')[0]) return null;
    const { snapshot, at, exact, forks } = copy.state;
    const { connection, channels } = this.#ws;
    connection.storedAt = at;
    try {
      this.waitingLevels()(snapshot.channels);
      apply(snapshot);
      channels.recount(snapshot.channels, exact, channels.levels);
      for (const fork of forks) this.#ws.forks.learn(fork, 0);
      this.mirror.load(copy); // after the snapshot, with which the inbox drops all items
    } catch {
      connection.storedAt = null;
      this.erase(); // another version of the client wrote it
      return null;
    }
    this.#isFresh = true;
    return snapshot;
  }
  /**
   * Levels that wait for a connection at this moment: the window that leads may send them before a snapshot arrives, or after it.
   * Returns a function that puts them into channels of a snapshot.
   */
  waitingLevels(): (channels: Snapshot['channels']) => void {
    const waiting = this.changes.all().flatMap((c) => (c.kind === 'level' ? [c] : []));
    return (channels) => {
      for (const { id, value } of waiting) {
        const channel = channels.find((c) => c.id === id);
        if (channel) channel.level = value;
      }
    };
  }
  /** Called after a snapshot of the server: what was kept may have missed events. */
  reset(): void {
    this.#isFresh = false;
    this.#isErased = false;
    this.mirror.clear();
    this.#touch();
  }
  /** Erases the copy, because the session or the membership has ended. The next snapshot or connection makes a new one. */
  erase(): void {
    this.#forget();
    eraseCopy(this.#deps.store, this.#deps.scope);
  }
  /** Called when the person may have turned copies on or off. Turning them off also clears the memory. */
  switched(): void {
    const isOff = !keepsMessages(this.#deps.store);
    if (isOff === this.#isOff) return;
    this.#isOff = isOff;
    if (isOff) return this.#forget();
    this.#isErased = false;
    this.lead();
  }
  #forget(): void {
    this.#isFresh = false;
    this.#isErased = true;
    this.mirror.clear();
  }
  /** Erases the copy if there was no contact to the server for too long, also while this window is open. */
  #expire(): void {
    if (!this.#isErased && isExpired(this.#contactAt(), this.#now())) this.erase();
  }
  /** Called when events arrive again. Sends what was changed meanwhile, and then reads what has no events; resolves after the sending. */
  async live(isFirst: boolean): Promise<void> {
    const wasFresh = this.#isFresh || isFirst;
    this.#isFresh = false;
    this.#isErased = false;
    await this.#send();
    if (wasFresh) this.#verify();
    this.#ws.inbox.soon();
    if (!this.mirror.items) void this.#readItems();
    this.#touch();
  }
  /** Called when this window becomes the one that sends, and writes the copy. */
  lead(): void {
    if (this.#ws.connection.live) {
      void this.#send();
      if (!this.mirror.items) void this.#readItems();
    }
    this.#touch();
  }
  /**
   * Reads markers and levels of open conversations again, and the inbox: another device may have changed or read them, without an
   * event.
   */
  #verify(): void {
    const { inbox } = this.#ws;
    inbox.load({ open: inbox.open, seq: inbox.seq });
    const { channels, threads, forks } = this.#ws.opened;
    for (const list of channels.all()) void list.load();
    for (const open of threads.all()) {
      const { version } = this.#ws.threads;
      this.#deps.api.thread(open.id).then(
        (thread) => {
          this.#ws.learnThread(thread, version);
          if ((thread.read_seq ?? 0) > open.reading.readSeq) open.reading.readElsewhere(thread.read_seq!);
        },
        (e: unknown) => isMissing(e) && void open.load(),
      );
    }
    for (const open of forks.all()) {
      if (this.#ws.forkActions.isStarting(open.id)) continue;
      const { version } = this.#ws.forks;
      this.#deps.api.fork(open.id).then(
        (fork) => this.#ws.forks.learn(fork, version),
        (e: unknown) => isMissing(e) && void open.load(),
      );
    }
  }
  /** Reads the newest items of each state once; changes keep them up to date. */
  async #readItems(): Promise<void> {
    if (this.#readsItems || !this.#leads) return;
    this.#readsItems = true;
    try {
      const api = this.#deps.api.part(InboxApi);
      const seq = this.#ws.inbox.seq;
      const items = new Map<string, InboxChanges['data'][number]>();
      for (const state of ['open', 'later', 'done'] as const)
        for (let cursor: string | undefined; items.size < ITEMS_MAX;) {
          const page = await api.list({ state, cursor });
          for (const item of page.data) items.set(item.id, item);
          cursor = page.next_cursor ?? undefined;
          if (!cursor || (state !== 'open' && page.data.length >= ITEMS_AT_ONCE)) break;
        }
      this.mirror.items = items;
      if (seq !== this.#ws.inbox.seq) this.mirror.learnItems(await api.changes(seq));
      this.#touch();
    } catch {
      // The next connection reads them.
    } finally {
      this.#readsItems = false;
    }
  }

  // --- requests ---

  /** Sends a request, or answers it from the copy if there is no connection. */
  async fetch(request: Request, send: (request: Request) => Promise<Response>): Promise<Response> {
    const url = new URL(request.url);
    const isOffline = this.#ws.connection.net === 'offline';
    if (request.method === 'GET') {
      const read = () => {
        this.#expire();
        return keepsMessages(this.#deps.store) && !this.#isErased ? this.#answers.read(url) : null;
      };
      const stored = isOffline || this.#isFresh ? read() : null;
      if (stored) return Response.json(stored);
      return send(request).catch((e: unknown) => {
        if (isAborted(request, e)) throw e;
        const answer = read();
        if (answer) return Response.json(answer);
        throw isOffline || this.#ws.connection.storedAt !== null ? new NotStored() : e;
      });
    }
    if (!isChange(request.method, url)) {
      await this.#mayChange(request.signal);
      return send(request);
    }
    const text = await request.text();
    const again = text ? new Request(request, { body: text }) : request;
    const change = this.#answers.change(request.method, url, text ? JSON.parse(text) : null);
    // An older value that waits must not be sent after this one.
    const isWaiting = change?.changes.some((c) => this.changes.get(c.kind, c.id) !== undefined) === true;
    const local = () => {
      if (!isWaiting && !keepsMessages(this.#deps.store)) return null;
      if (!change?.changes.every((c) => this.changes.put(c))) return null;
      this.#touch();
      this.#sendSoon();
      this.#deps.windows.post({ type: 'change' }); // another window may be the one that sends
      return Response.json(change.answer);
    };
    const early = isOffline || isWaiting || !this.#ws.isCurrent() ? local() : null;
    if (early) return early;
    await this.#mayChange(request.signal);
    return send(again).then(
      (response) => {
        this.#touch(); // no event follows a level
        return response;
      },
      (e: unknown) => {
        const late = isAborted(request, e) ? null : local();
        if (late) return late;
        throw e;
      },
    );
  }
  /** Waits until the session is known to be this user's: another one must not make this user's changes. */
  async #mayChange(signal: AbortSignal): Promise<void> {
    if (this.#ws.isCurrent()) return;
    if (this.#ws.connection.net !== 'offline') {
      const aborted = new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
      await Promise.race([this.#ws.confirmed(), aborted]);
    }
    if (!this.#ws.isCurrent()) throw new Unreachable(false);
  }
  #sendSoon(): void {
    this.#sendLater(); // in case this attempt fails
    if (this.#ws.connection.live) void this.#send();
  }
  #sendLater(): void {
    this.#sendTimer ??= setTimeout(() => {
      this.#sendTimer = null;
      if (this.#ws.connection.live) void this.#send();
    }, SEND_AGAIN_MS);
  }
  /** Sends the changes that wait, in order, with those that are made meanwhile. One that the server refuses is dropped. */
  #send(): Promise<void> {
    if (!this.#leads) return Promise.resolve();
    this.#sending ??= this.#sendAll().finally(() => (this.#sending = null));
    return this.#sending;
  }
  async #sendAll(): Promise<void> {
    for (let change; (change = this.changes.all()[0]);) {
      if (this.#stopped || !this.#ws.isCurrent()) return; // or the next user would send them
      try {
        await this.#sendOne(change);
      } catch (e) {
        const isRefused = e instanceof ApiError && e.status < 500 && e.status !== 401 && e.status !== 429;
        if (!isRefused) return this.#sendLater();
      }
      this.changes.sent(change);
    }
  }
  async #sendOne(change: StoredChange): Promise<void> {
    const { api } = this.#deps;
    const level = (l: 'all' | 'mentions' | 'none' | null) => (l === 'mentions' ? null : l);
    switch (change.kind) {
      case 'item': {
        const { state, until } = change.value;
        const isPast = until !== null && Date.parse(until) < this.#now() + 60_000;
        await api.part(InboxApi).setState([change.id], isPast ? 'open' : state, isPast ? null : until);
        return;
      }
      // A marker that moved on must not undo what was read on another device meanwhile.
      case 'read':
        if (!change.isBack && ((await api.thread(change.id)).read_seq ?? 0) >= change.value) return;
        return void (await api.markRead(change.id, change.value));
      case 'fork-read':
        if (!change.isBack && ((await api.fork(change.id)).read_seq ?? 0) >= change.value) return;
        return void (await api.markForkRead(change.id, change.value));
      case 'follow':
        return void (await api.follow(change.id, level(change.value)));
      case 'fork-follow':
        return void (await api.followFork(change.id, level(change.value)));
      case 'level':
        return void (await api.setChannelLevel(change.id, change.value));
    }
  }

  // --- keeping up to date ---

  get #leads(): boolean {
    return this.#ws.outbox.leads;
  }
  #apply(e: ServerEvent): void {
    this.#isFresh = false;
    this.mirror.apply(e);
    this.#touch();
  }
  #itemsChanged(changes: InboxChanges): void {
    // until they have been read again, those that are stored are better than none
    if (changes.resync && this.#ws.connection.live) void this.#readItems();
    else this.mirror.learnItems(changes);
    this.#touch();
  }
  /** Conversations and lists that are open in this window. */
  #capture(): Captured {
    const { channels, threads, forks } = this.#ws.opened;
    const conversations: StoredConversation[] = [];
    for (const open of [...threads.all(), ...forks.all()]) {
      const channel_id =
        this.#ws.threads.map.get(open.id)?.channel_id ?? this.#ws.forks.get(open.id)?.channel_id;
      if (open.status !== 'ready' || open.hasNewer || !channel_id || !this.#follows(channel_id)) continue;
      if (this.#ws.forkActions.isStarting(open.id)) continue;
      const { id, messages, hasOlder } = open;
      conversations.push({ id, channel_id, messages, hasOlder });
    }
    const lists: StoredList[] = [];
    for (const list of channels.all())
      if (list.status === 'ready' && this.#follows(list.id))
        lists.push({ channel_id: list.id, threads: [...list.ids] });
    const ids = new Set([...conversations.map((c) => c.id), ...lists.flatMap((l) => l.threads)]);
    const known = [...ids].flatMap((id) => this.#ws.threads.map.get(id) ?? []);
    return { conversations, lists, threads: known };
  }
  #learn({ conversations, lists, threads }: Captured): void {
    for (const list of lists) this.mirror.learnList(list);
    for (const conversation of conversations) this.mirror.learn(conversation);
    for (const thread of threads) this.mirror.threads.map.set(thread.id, thread);
  }
  #follows(channel: string): boolean {
    const c = this.#ws.channels.map.get(channel);
    return c !== undefined && (c.kind !== 'public' || c.is_member === true);
  }
  // --- windows ---

  /** Passes changes of the inbox, which this window read, to the others. */
  shareInbox(since: number, changes: InboxChanges): void {
    if (this.#leads) this.#deps.windows.post({ type: 'inbox', since, changes });
  }
  /** True if any window is on screen: then nothing is notified. */
  async isAnyVisible(): Promise<boolean> {
    if (this.#deps.isVisible()) return true;
    let stop = () => {};
    const seen = new Promise<boolean>((resolve) => {
      stop = this.#deps.windows.listen((m) => m.type === 'visible' && resolve(true));
      setTimeout(() => resolve(false), VISIBLE_WITHIN_MS);
    });
    this.#deps.windows.post({ type: 'visible?' });
    return seen.finally(stop);
  }
  #onMessage(m: WindowMessage): void {
    if (m.type === 'inbox') return this.#ws.inbox.shared(m.since, m.changes);
    if (m.type === 'change') return this.#sendSoon();
    if (m.type === 'visible?' && this.#deps.isVisible()) this.#deps.windows.post({ type: 'visible' });
    if (m.type !== 'opened' || this.#isErased) return;
    // Applying events again changes nothing, so that a window may be ahead; from one that is behind, events would be missing.
    if (m.seq < this.#ws.position.seq || m.epoch !== this.#ws.position.epoch) return;
    this.#learn(m);
    this.#touch();
  }

  // --- writing ---

  /** Writes soon; a window that does not lead sends its open conversations to the leader instead. */
  #touch(): void {
    this.#isDirty = true;
    this.#flushIn(WRITE_AFTER_MS);
  }
  #flushIn(ms: number): void {
    if (this.#stopped) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      void this.flush();
    }, ms);
  }
  /** Writes now, because the page may be closed. */
  flush(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#write()).catch(() => this.#failed());
    return this.#writing;
  }
  #failed(): void {
    this.mirror.touchAll();
    this.#isDirty = true;
    this.#flushIn(WRITE_AGAIN_MS);
  }
  async #write(): Promise<void> {
    const ws = this.#ws;
    const { store, scope, windows, database } = this.#deps;
    const account = this.#deps.account();
    const { epoch, seq } = ws.position;
    this.#expire();
    if (!this.#isDirty || this.#isErased || this.#stopped || ws.status !== 'ready' || !seq || !account)
      return;
    if (!keepsMessages(store) || !ws.isCurrent()) return;
    const captured = this.#capture();
    this.#learn(captured);
    this.mirror.keepOnly((channel) => this.#follows(channel));
    this.#isDirty = false;
    if (!this.#leads) {
      this.#wasLeader = false;
      return windows.post({ type: 'opened', seq, epoch, ...structuredCopy(captured) });
    }
    this.#share(captured);
    if (!this.#wasLeader || !isCopied(store, scope)) this.mirror.touchAll();
    this.#wasLeader = true;
    const state = {
      snapshot: snapshotOf(ws),
      // the counts may include later events, also ones that are not sent to this user
      exact: Math.max(seq, ws.channels.exact),
      at: this.#contactAt(),
      lists: this.mirror.storedLists(),
      threads: this.mirror.storedThreads(),
      forks: [...this.mirror.conversations.keys()].flatMap((id) => ws.forks.get(id) ?? []),
      items: this.mirror.items && [...this.mirror.items.values()],
    };
    if (!this.mirror.fit(state)) return this.erase();
    const order = [...this.mirror.conversations.keys()];
    if (!setKept(store, scope, { account, slug: ws.slug, at: state.at })) return;
    await database.write(structuredCopy({ state: { ...state, order }, ...this.mirror.takeChanges() }));
    // Another window may have erased the copy while this one wrote it.
    if (!isCopied(store, scope) || !keepsMessages(store) || !ws.isCurrent()) eraseCopy(store, scope);
  }
  /** Passes conversations that are open here to the other windows, of which one may take over, if they changed. */
  #share({ conversations, threads }: Captured): void {
    const changed = conversations.filter((c) => this.#shared.get(c.id) !== c.messages);
    if (!changed.length) return;
    this.#shared = new Map(conversations.map((c) => [c.id, c.messages]));
    const ids = new Set(changed.map((c) => c.id));
    const opened = { conversations: changed, lists: [], threads: threads.filter((t) => ids.has(t.id)) };
    const { epoch, seq } = this.#ws.position;
    this.#deps.windows.post({ type: 'opened', epoch, seq, ...structuredCopy(opened) });
  }
  /** Time of the last contact to the server. */
  #contactAt(): number {
    const { live, storedAt } = this.#ws.connection;
    if (live) this.#lastLiveAt = this.#now();
    return storedAt ?? this.#lastLiveAt ?? this.#now();
  }
}

/** A copy without proxies and functions, of this moment. */
const structuredCopy = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;
/** Requests whose effect can be kept until there is a connection. */
const isChange = (method: string, { pathname }: URL): boolean =>
  /^(PUT|DELETE)$/.test(method) &&
  /^\/v1\/(inbox\/state|(threads|forks|channels)\/[^/]+\/(read|follow|level))$/.test(pathname);
const isAborted = (request: Request, e: unknown): boolean =>
  request.signal.aborted && (e as Error | null)?.name === 'AbortError';
