import type { Api } from '../api/api';
import type { DroppableFrame, MessageCreated, OutcomeEvent, ServerEvent } from '../api/events';
import { isMissing, errorMessage } from '../api/problem';
import { Socket, type SocketDeps } from '../api/socket';
import type { Channel, Message, Snapshot, Task, Thread, Workspace } from '../api/types';
import { counts, isFrom, mentionsMe, toggled } from '../lib/messages';
import type { Held, Uploads } from '../files/uploads.svelte';
import { to } from '../lib/router.svelte';
import type { KeyValueStore } from '../lib/storage';
import type { WindowLocks } from '../lib/window-locks';
import { ChannelState } from './channel.svelte';
import { Channels } from './channels.svelte';
import { Connection } from './connection.svelte';
import { ForkActions } from './fork-actions.svelte';
import { Drafts } from './drafts.svelte';
import { ForkState } from './fork.svelte';
import { Forks } from './forks.svelte';
import {
  mentionNotification,
  replyNotification,
  assignmentNotification,
  type UserNotification,
} from './notifications';
import { Outbox, type OutboxWork, type OutItem, type Target } from './outbox.svelte';
import { Outcomes } from './outcomes.svelte';
import { People } from './people.svelte';
import type { UnreadCounts } from './reading.svelte';
import { Reads } from './reads';
import { LruCache } from './lru-cache';
import { SafeStore } from './safe-store.svelte';
import { Streams } from './streams.svelte';
import { placeOf, Tasks } from './tasks.svelte';
import { ThreadState } from './thread.svelte';
import { Threads } from './threads.svelte';
import { Typing } from './typing.svelte';
import type { Loading, MessageWindow } from './window.svelte';

export interface WorkspaceDeps {
  store: KeyValueStore;
  locks: WindowLocks;
  socketUrl: string;
  socket?: SocketDeps;
  /** Whether the window is visible. */
  visible(): boolean;
  /** False once another window signed this user out or someone else in. */
  isCurrentUser(): boolean;
  /** The session or the membership ended, or the session is another user's. */
  onEnded(): void;
  /** Text for the polite live region. */
  announce(text: string): void;
  /** Something happened that the user is notified about. */
  onNotification(notification: UserNotification): void;
}

const THREADS_OPEN_MAX = 8;
const FORKS_OPEN_MAX = 8;
const CHANNELS_OPEN_MAX = 12;
const RESUBSCRIBE_EVERY_MS = 500;
const RECOUNTS_MAX = 5;

/** One workspace of the user: the snapshot, kept up to date by events. The only way into state. */
export class WorkspaceState {
  readonly id: string;
  readonly api: Api;
  status = $state<Loading>('loading');
  problem = $state('');
  workspace = $state.raw<Workspace>({ id: '', name: '', slug: '', default_agent_id: null, created_at: '' });
  /** Upload limit of the server, per file. */
  fileBytesMax = 0;
  readonly people = new People();
  readonly channels = new Channels(this.people);
  readonly threads = new Threads(() => this.#shownThreads());
  readonly forks = new Forks();
  readonly tasks: Tasks;
  readonly streams = new Streams();
  readonly connection = new Connection();
  readonly typing: Typing;
  readonly store: SafeStore;
  readonly drafts: Drafts;
  readonly outbox: Outbox;
  readonly reads: Reads;
  readonly forkActions: ForkActions;
  readonly outcomes = new Outcomes(this);
  /** Uploads; created with the first file. */
  uploads = $state.raw<Uploads | null>(null);

  /** Names that become links in messages: only channels that the user can see. */
  readonly links = $derived(
    new Map(this.channels.rooms.map((c) => [c.name ?? '', to.channel(this.slug, c.name ?? '')])),
  );

  #deps: WorkspaceDeps;
  #ref: string;
  #user: string;
  #socket: Socket;
  #threads = new LruCache(THREADS_OPEN_MAX, (id) => new ThreadState(id, this));
  #forkStates = new LruCache(FORKS_OPEN_MAX, (id) => new ForkState(id, this));
  #lists = new LruCache(CHANNELS_OPEN_MAX, (id) => new ChannelState(id, this));
  #outcomeListeners = new Set<(e: OutcomeEvent) => void>();
  #eventListeners = new Set<(e: ServerEvent) => void>();
  #asked = new Map<string, number>();
  #fetching = new Set<string>();
  #stopped = false;
  #wasLive = false;

  constructor(ref: { id: string; slug: string }, user: string, api: Api, deps: WorkspaceDeps) {
    this.id = ref.id;
    this.#ref = ref.slug;
    this.#user = user;
    this.api = api.in(ref.id);
    this.#deps = deps;
    this.#socket = new Socket(
      deps.socketUrl,
      this.id,
      {
        onEvent: (e) => this.apply(e),
        onFrame: (f) => this.onFrame(f),
        onState: (state) => {
          this.connection.socket(state);
          if (state === 'live') this.#live();
        },
        onResync: () => void this.#resync(),
        onRefused: () => deps.onEnded(),
      },
      deps.socket,
    );
    this.reads = new Reads(this.api, this.threads, this.channels, {
      recount: () => void this.#recount(),
      reading: (thread) => this.#threads.known(thread)?.reading,
    });
    this.tasks = new Tasks((id) => this.api.task(id));
    this.typing = new Typing((place) => this.forkActions.isStarting(place) || this.#socket.typing(place));
    this.store = new SafeStore(deps.store);
    const scope = `${user}.${ref.id}`;
    this.drafts = new Drafts(this.store, scope);
    const work: OutboxWork = {
      post: (item) => this.#post(item),
      newestThread: (channel) => this.#newestThread(channel),
      maySend: () => deps.isCurrentUser(),
      visible: () => deps.visible(),
      signedOut: () => deps.onEnded(),
      refused: () => this.#deps.announce('Message not sent'),
      uploadAgain: (id) => this.uploads?.again(id),
      gone: (id) => this.uploads?.forget(id),
    };
    this.outbox = new Outbox(this.store, scope, work, deps.locks);
    this.forkActions = new ForkActions(this);
  }

  /** First path segment; an admin can change it. */
  get slug(): string {
    return this.workspace.slug || this.#ref;
  }
  get myId(): string {
    return this.people.me.id;
  }

  // --- life ---

  async start(): Promise<void> {
    try {
      const s = await this.#load();
      if (this.#stopped) return;
      this.#socket.start(s);
    } catch (e) {
      this.problem = errorMessage(e);
      this.status = isMissing(e) ? 'missing' : 'error';
    }
  }
  async #load(): Promise<Snapshot> {
    const s = await this.#snapshot();
    this.workspace = s.workspace;
    this.fileBytesMax = s.limits.upload_bytes_max;
    this.people.load(s);
    this.channels.load(s.channels, s.seq);
    this.threads.setMuted(s.muted_threads);
    this.forks.load(s.open_forks);
    this.tasks.load(s.active_tasks);
    this.streams.clear();
    void this.outcomes.start();
    this.status = 'ready';
    if (s.agents_truncated) this.#restOfAgents().catch(() => undefined); // the Agents page lists them too
    if (s.members.length >= 500) void this.#restOfMembers(s.members.at(-1)!.user_id);
    return s;
  }
  /** Fails if the session is another user's by now: nothing of theirs may mix with what is here. */
  async #snapshot(): Promise<Snapshot> {
    const s = await this.api.snapshot();
    if (s.me.id === this.#user) return s;
    this.stop();
    this.#deps.onEnded();
    throw new Error('the session belongs to another user');
  }
  async #restOfAgents(): Promise<void> {
    const { AgentsApi } = await import('../api/agents');
    for (const agent of await this.api.part(AgentsApi).all()) {
      if (!this.people.agentsById.has(agent.id)) this.people.agentsById.set(agent.id, agent);
    }
  }
  async #restOfMembers(after: string): Promise<void> {
    for (let at: string | undefined = after; at;) {
      const page: Awaited<ReturnType<Api['members']>> = await this.api.members(at);
      for (const m of page.data) this.people.members.set(m.user_id, m);
      at = page.has_more ? page.data.at(-1)?.user_id : undefined;
    }
  }
  #live(): void {
    this.outbox.flush();
    if (this.#wasLive) void this.#catchUp();
    this.#wasLive = true;
  }
  /** Presence and read markers arrive in frames that are lost during a disconnection. */
  async #catchUp(): Promise<void> {
    const s = await this.#recount();
    if (!s) return;
    this.reads.unsettle();
    this.people.online.clear();
    for (const p of s.presence) this.people.seen(p);
  }
  /** Counts from a fresh snapshot; one that is behind the applied events is requested again. */
  async #recount(): Promise<Snapshot | null> {
    try {
      for (let i = 0; i < RECOUNTS_MAX; i++) {
        const s = await this.#snapshot();
        if (s.seq < this.#socket.cursor) continue;
        this.channels.recount(s.channels, s.seq);
        this.threads.setMuted(s.muted_threads);
        return s;
      }
    } catch {
      // The next reconnection tries again.
    }
    return null;
  }
  /** The log no longer reaches back to the cursor: everything is loaded again, on the same screen. */
  async #resync(): Promise<void> {
    try {
      const s = await this.#load();
      for (const t of this.#threads.all()) void t.reload();
      for (const f of this.#forkStates.all()) if (!this.forkActions.isStarting(f.id)) void f.reload();
      for (const c of this.#lists.all()) void c.load();
      if (!this.#stopped) this.#socket.start(s);
    } catch {
      if (!this.#stopped) setTimeout(() => void this.#resync(), 3000);
    }
  }
  /** The network may be back, or the user retries. */
  reconnect(): void {
    if (this.#stopped) return;
    this.connection.refresh();
    this.#socket.retryNow();
    this.outbox.flush();
  }
  /** Closed by the server for a reason that may be temporary (role changed): check again. */
  async resume(): Promise<void> {
    await this.#resync();
  }
  stop(): void {
    this.#stopped = true;
    this.#socket.stop();
    this.connection.dispose();
    this.typing.dispose();
    this.reads.dispose();
    this.outbox.dispose();
    this.uploads?.dispose();
    this.drafts.dispose();
  }

  // --- conversations ---

  thread(id: string): ThreadState {
    return this.#threads.get(id);
  }
  fork(id: string): ForkState {
    return this.#forkStates.get(id);
  }
  channel(id: string): ChannelState {
    return this.#lists.get(id);
  }
  /** Conversation in which these messages are shown, if any. */
  #window(x: { thread_id: string | null; fork_id: string | null }): MessageWindow | undefined {
    if (x.fork_id) return this.#forkStates.known(x.fork_id);
    return x.thread_id ? this.#threads.known(x.thread_id) : undefined;
  }
  /** Deltas of a thread or dive are sent only to its subscribers. */
  watch(place: string): () => void {
    if (this.forkActions.isStarting(place)) return () => undefined;
    this.#socket.subscribe(place);
    return () => {
      this.#socket.unsubscribe(place);
      for (const [id, s] of this.streams.map) if (s.place === place) this.streams.map.delete(id);
    };
  }
  /** Subscribes a result editor to events. Returns a function that unsubscribes. */
  onOutcome(listener: (e: OutcomeEvent) => void): () => void {
    this.#outcomeListeners.add(listener);
    return () => this.#outcomeListeners.delete(listener);
  }
  /** Subscribes a list to events, after they have been applied. Returns a function that unsubscribes. */
  onEvent(listener: (e: ServerEvent) => void): () => void {
    this.#eventListeners.add(listener);
    return () => this.#eventListeners.delete(listener);
  }
  /** The workspace's default agent, unless the thread has its own. */
  defaultAgentOf(thread: string): string | null {
    return this.threads.map.get(thread)?.agent_id ?? this.workspace.default_agent_id;
  }
  learnThread(thread: Thread, version = this.threads.version): void {
    this.threads.learn(thread, version);
    this.#list(thread.id);
  }
  learnTasks(tasks: Task[]): void {
    for (const t of tasks) this.tasks.learn(t);
  }

  // --- incoming ---

  apply(e: ServerEvent): void {
    this.people.apply(e);
    this.#apply(e);
    for (const listener of this.#eventListeners) listener(e);
  }
  #apply(e: ServerEvent): void {
    switch (e.type) {
      case 'workspace.updated':
        this.workspace = { ...this.workspace, ...e.data.workspace };
        return;
      case 'channel.created':
      case 'channel.updated':
      case 'channel.archived':
        return this.channels.put(e.data.channel);
      case 'channel.member_added':
      case 'channel.member_removed':
        return this.#membership(e.type === 'channel.member_added', e.data.channel, e.data.user_id);
      case 'thread.created':
      case 'thread.updated':
        this.threads.put(e.data.thread);
        return this.#list(e.data.thread.id);
      case 'message.created':
        return this.#created(e);
      case 'message.updated':
      case 'message.deleted': {
        const m = e.data.message;
        this.threads.changed(m);
        if (!m.fork_id && !isFrom(m, this.myId) && (m.deleted_at || m.edited_at)) this.reads.changed(m);
        this.#window(m)?.apply(e);
        if (m.state !== 'streaming') this.streams.end(m.id);
        for (const state of this.#forkStates.all()) state.changed(m);
        if (e.type === 'message.updated') this.#notify(replyNotification(m, this));
        return;
      }
      case 'reaction.added':
      case 'reaction.removed':
        if (e.thread_id) this.#window({ thread_id: e.thread_id, fork_id: e.fork_id ?? null })?.apply(e);
        return;
      case 'fork.created':
      case 'fork.updated':
        return this.forks.put(e.data.fork);
      case 'resolution.drafted':
      case 'resolution.updated':
      case 'resolution.published':
      case 'action_item.updated':
        return this.#outcome(e);
      case 'task.status_changed':
        return this.#task(e.data.task);
    }
  }
  onFrame(f: DroppableFrame): void {
    switch (f.type) {
      case 'task.delta': {
        const task = this.tasks.map.get(f.task_id);
        const place = task ? placeOf(task) : null;
        if (!this.streams.delta(f, place) && place) this.#askAgain(place);
        return;
      }
      case 'typing': {
        const place = f.fork_id ?? f.thread_id;
        if (place && f.user_id !== this.myId) this.typing.started(place, f.user_id);
        return;
      }
      case 'presence':
        return this.people.seen(f);
      case 'read.updated':
        if (f.thread_id === null) return this.reads.readChannel(f.channel_id, f.seq);
        return this.reads.marked(f.thread_id, f.seq);
      case 'follow.updated':
        return this.reads.followed(f.thread_id, f.follow);
    }
  }

  #created(e: MessageCreated): void {
    const m = e.data.message;
    const mine = m.author.type === 'human' && m.author.id === this.myId;
    const open = this.#window(m);
    this.threads.created(m, this.myId);
    if (m.kind === 'resolution') this.#lists.known(m.channel_id)?.results.add(m.thread_id);
    if (!m.fork_id) this.#moved(m);
    this.forks.created(m);
    open?.apply(e);
    if (mine && m.client_id) this.outbox.confirm(m.client_id, placeOf(m));
    if (m.author.type === 'human' && m.author.id) this.typing.stopped(placeOf(m), m.author.id);
    if (m.author.type === 'agent' && m.metadata.task_id) this.tasks.writes(m.metadata.task_id, m.id);
    if (counts(m, this.myId))
      this.channels.count(m.channel_id, this.threads.isMuted(m.thread_id), mentionsMe(m, this.myId), e.seq);
    this.#notify(mentionNotification(m, this));
    this.#notify(replyNotification(m, this));
  }
  /** Adds a thread to its channel's list. */
  #list(id: string): void {
    const thread = this.threads.map.get(id);
    if (thread) this.#lists.known(thread.channel_id)?.put(thread);
  }
  /** A message moved its thread up in the list; a dropped thread is loaded again. */
  #moved(m: Message): void {
    if (this.threads.map.has(m.thread_id)) return this.#list(m.thread_id);
    const list = this.#lists.known(m.channel_id);
    if (!list || list.status !== 'ready' || this.#fetching.has(m.thread_id)) return;
    this.#fetching.add(m.thread_id);
    const { version } = this.threads;
    this.api
      .thread(m.thread_id)
      .then(
        (thread) => this.learnThread(thread, version),
        () => undefined, // the list includes it when it is loaded again
      )
      .finally(() => this.#fetching.delete(m.thread_id));
  }
  #shownThreads(): Set<string> {
    const shown = new Set(this.#threads.keys());
    for (const list of this.#lists.all()) for (const id of [...list.ids, ...list.results.ids]) shown.add(id);
    for (const state of this.#forkStates.all()) if (state.fork) shown.add(state.fork.thread_id);
    return shown;
  }
  #notify(notification: UserNotification | null): void {
    if (notification) this.#deps.onNotification(notification);
  }
  #outcome(e: OutcomeEvent): void {
    if (e.type === 'action_item.updated') this.#notify(assignmentNotification(e.data.action_item, this));
    this.outcomes.apply(e);
    for (const listener of this.#outcomeListeners) listener(e);
  }
  #task(task: Task): void {
    const before = this.tasks.map.get(task.id)?.status;
    this.tasks.put(task);
    if (!this.#window(task)?.watching || before === task.status) return;
    const name = this.people.agentName(task.agent_id);
    if (task.kind === 'resolve') return; // the editor shows the progress of the draft
    if (task.status === 'running') this.#deps.announce(`${name} is replying`);
    else if (task.status === 'completed') this.#deps.announce(`${name} replied`);
    else if (task.status === 'cancelled') this.#deps.announce('Stopped');
    else if (task.status === 'failed') this.#deps.announce(`${name} couldn't reply`);
  }
  #membership(added: boolean, channel: Channel, user: string): void {
    if (user === this.myId) return added ? this.channels.join(channel) : this.channels.leave(channel.id);
    if (this.channels.map.has(channel.id)) this.channels.put(channel);
  }
  #askAgain(place: string): void {
    const now = Date.now();
    if (now - (this.#asked.get(place) ?? 0) < RESUBSCRIBE_EVERY_MS) return;
    this.#asked.set(place, now);
    this.#socket.resubscribe(place);
  }

  // --- outgoing ---

  send(target: Target, content: string, then?: (place: string) => void, files: Held[] = []): void {
    const shown = files.map((f) => f.shown);
    const fork_start = this.forkActions.startOf(target.fork_id);
    if (fork_start) target = { ...target, fork_start };
    const id = this.outbox.add(target, content, this.connection.net !== 'offline', then, shown);
    if (files.length) this.uploads?.sent(id, files);
    const place = target.fork_id ?? target.thread_id;
    if (place) this.typing.sent(place);
  }
  async #newestThread(channel: string): Promise<string | null> {
    const open = (t: Thread) => t.status !== 'archived';
    const known = this.threads.inChannel(channel).find(open);
    return known?.id ?? (await this.api.threads(channel)).data.find(open)?.id ?? null;
  }
  async #post(item: OutItem): Promise<string> {
    const { content, client_id, attachments } = item;
    const body = {
      content,
      client_id,
      ...(attachments?.length && { attachments: attachments.map((a) => a.id) }),
    };
    if (item.fork_id) {
      const fork = await this.forkActions.settled(item.fork_id, item.fork_start);
      const { message, tasks } = await this.api.postToFork(fork, body);
      this.learnTasks(tasks);
      this.#forkStates.known(fork)?.add(message);
      return fork;
    }
    if (item.thread_id) {
      const { message, tasks } = await this.api.reply(item.thread_id, body);
      this.learnTasks(tasks);
      this.#threads.known(item.thread_id)?.add(message);
      return item.thread_id;
    }
    const { agent_id, from_thread_id } = item;
    const start = { ...body, agent_id, from_thread_id }; // undefined fields are not sent
    const { thread, message, tasks } = await this.api.startThread(item.channel_id, start);
    this.learnTasks(tasks);
    if (!this.threads.map.has(thread.id))
      this.learnThread({ ...thread, root_message: message, last_message: message });
    this.thread(thread.id).seed(message);
    return thread.id;
  }
  readTo(thread: string, seq: number): Promise<UnreadCounts | null> {
    return this.connection.net === 'offline' ? Promise.resolve(null) : this.reads.mark(thread, seq);
  }

  /** Shown immediately; the event with everyone's reactions replaces it. */
  async react(m: Message, emoji: string): Promise<void> {
    const on = !m.reactions.find((r) => r.emoji === emoji)?.user_ids.includes(this.myId);
    const open = this.#window(m);
    open?.react(m.id, toggled(m.reactions, emoji, this.myId, on));
    try {
      await this.api.react(m.id, emoji, on);
    } catch (e) {
      const now = open?.messages.find((x) => x.id === m.id)?.reactions ?? [];
      open?.react(m.id, toggled(now, emoji, this.myId, !on));
      throw e;
    }
  }
  async edit(m: Message, content: string): Promise<void> {
    const edited = await this.api.editMessage(m.id, content);
    this.#window(m)?.replace(edited);
    this.threads.changed(edited);
  }
  async remove(m: Message): Promise<void> {
    const gone = await this.api.deleteMessage(m.id);
    this.#window(m)?.replace(gone);
    this.threads.changed(gone);
  }
  async stopTask(task: Task): Promise<void> {
    this.tasks.learn(await this.api.stopTask(task.id));
  }
  async retryTask(task: Task): Promise<void> {
    this.tasks.learn(await this.api.retryTask(task.id));
  }
}
