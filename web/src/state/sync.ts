import type { Api } from '../api/api';
import { ApiError, errorMessage, isDemand, isMissing } from '../api/problem';
import { Socket, type Position, type SocketDeps } from '../api/socket';
import type { Snapshot } from '../api/types';
import type { OpenConversations } from './open-conversations';
import type { Polling } from './polling';
import type { WorkspaceParts } from './workspace-parts';

const RESUBSCRIBE_EVERY_MS = 500;
const RECOUNTS_MAX = 5;

interface SyncDeps {
  /** The signed-in user. */
  user: string;
  socketUrl: string;
  socket?: SocketDeps | undefined;
  /** Resolves once it is known whether the session is this user's. Each call asks again if the server could not be reached. */
  confirmed(): Promise<boolean>;
  /** Called when the session or the membership has ended, or when the session is another user's. */
  onEnded(): void;
}

/** Connection of a workspace to the server: the snapshot, the socket, and missed events. */
export class Sync {
  #ws: WorkspaceParts;
  #open: OpenConversations;
  #user: string;
  #confirmed: () => Promise<boolean>;
  #onEnded: () => void;
  #socket: Socket;
  #asked = new Map<string, number>();
  #stopped = false;
  #wasLive = false;
  /** True from a start with the copy on this device until events arrive. */
  #isRestored = false;
  #polling: Polling | null = null;

  constructor(ws: WorkspaceParts, open: OpenConversations, deps: SyncDeps) {
    this.#ws = ws;
    this.#open = open;
    this.#user = deps.user;
    this.#confirmed = () => deps.confirmed();
    this.#onEnded = () => deps.onEnded();
    this.#socket = new Socket(
      deps.socketUrl,
      ws.id,
      {
        onEvent: (e) => ws.apply(e),
        onFrame: (f) => ws.onFrame(f),
        onState: (state) => {
          ws.connection.socket(state);
          if (state === 'live') this.#live();
        },
        onResync: () => void this.resync(),
        onRefused: () => deps.onEnded(),
        onUnopened: () => void this.#unopened(),
      },
      deps.socket,
    );
  }
  get position(): Position {
    return { epoch: this.#socket.epoch, seq: this.#socket.cursor };
  }
  typing(place: string): void {
    this.#socket.typing(place);
  }
  active(): void {
    this.#socket.active();
  }
  /** Subscribes to the deltas of a thread or fork, which are sent only to subscribers. Returns a function that unsubscribes. */
  watch(place: string): () => void {
    void this.#socket.subscribe(place);
    return () => {
      this.#socket.unsubscribe(place);
      for (const [id, s] of this.#ws.streams.map) if (s.place === place) this.#ws.streams.map.delete(id);
      this.dropStale();
    };
  }
  /**
   * Subscribes to the events of a channel. The promise resolves when they start to arrive; null if they
   * already do.
   */
  open(channel: string): Promise<void> | null {
    const opened = this.#socket.subscribe(channel);
    this.#ws.channels.active.delete(channel);
    return this.#ws.channels.follows(channel) ? null : opened;
  }
  close(channel: string): void {
    this.#socket.unsubscribe(channel);
    this.#ws.channels.active.delete(channel);
    this.dropStale();
  }
  /**
   * Drops loaded content of channels whose events do not arrive, because the user has neither joined nor
   * opened them.
   */
  dropStale(): void {
    const arrives = (channel: string) =>
      this.#ws.channels.follows(channel) || this.#socket.isSubscribed(channel);
    this.#open.dropStale(
      (id, channel) => channel !== undefined && !arrives(channel) && !this.#socket.isSubscribed(id),
    );
    this.#ws.tasks.drop((task) => task.channel_id !== null && !arrives(task.channel_id));
  }
  /** Requests the running replies of a conversation from their start. */
  resubscribe(place: string): void {
    const now = Date.now();
    if (now - (this.#asked.get(place) ?? 0) < RESUBSCRIBE_EVERY_MS) return;
    this.#asked.set(place, now);
    this.#socket.resubscribe(place);
  }

  async start(): Promise<void> {
    try {
      const s = (await this.#restore()) ?? (await this.#load());
      await this.#connect(s);
    } catch (e) {
      this.#fail(e);
    }
  }
  /** Connects once the session is confirmed. Before, the copy is only shown, so that nothing is sent as another user. */
  async #connect(at: Position): Promise<void> {
    if (this.#stopped) return;
    this.#ws.connection.socket('connecting');
    if ((await this.#confirmed()) && !this.#stopped) this.#socket.start(at);
  }
  #fail(e: unknown): void {
    this.#ws.problem = errorMessage(e);
    this.#ws.refusal = e instanceof ApiError ? e.code : null;
    this.#ws.status = isMissing(e) ? 'missing' : 'error';
  }
  /** Starts with the copy on this device; null if there is none. */
  async #restore(): Promise<Snapshot | null> {
    const stored = (await this.#ws.copy?.restore((s) => this.#apply(s))) ?? null;
    this.#isRestored = stored !== null;
    return stored;
  }
  async #load(): Promise<Snapshot> {
    const s = await this.#snapshot();
    this.#isRestored = false;
    this.#apply(s);
    this.#ws.copy?.reset();
    if (s.agents_truncated) this.#restOfAgents().catch(() => undefined); // the Agents page lists them too
    if (s.members.length >= 500) void this.#restOfMembers(s.members.at(-1)!.user_id);
    return s;
  }
  #apply(s: Snapshot): void {
    this.#ws.workspace = s.workspace;
    this.#ws.fileBytesMax = s.limits.upload_bytes_max;
    this.#ws.agentsState = s.agents_state;
    this.#ws.checklist = s.checklist;
    this.#ws.people.load(s);
    this.#ws.channels.load(s.channels, s.seq);
    this.#ws.threads.setMuted(s.muted_threads);
    this.#ws.forks.load(s.open_forks);
    this.#ws.tasks.load(s.active_tasks);
    this.#ws.streams.clear();
    this.#ws.inbox.load(s.inbox);
    this.dropStale();
    void this.#ws.outcomes.start();
    this.#ws.status = 'ready';
  }
  /** Fails if the session now belongs to another user, whose data must not be mixed with this state. */
  async #snapshot(): Promise<Snapshot> {
    const s = await this.#ws.api.snapshot();
    if (s.me.id === this.#user) return s;
    this.#ws.stop();
    this.#onEnded();
    throw new Error('the session belongs to another user');
  }
  async #restOfAgents(): Promise<void> {
    const { AgentsApi } = await import('../api/agents');
    for (const agent of await this.#ws.api.part(AgentsApi).all()) {
      if (!this.#ws.people.agentsById.has(agent.id)) this.#ws.people.agentsById.set(agent.id, agent);
    }
  }
  async #restOfMembers(after: string): Promise<void> {
    for (let at: string | undefined = after; at;) {
      const page: Awaited<ReturnType<Api['members']>> = await this.#ws.api.members(at);
      for (const m of page.data) this.#ws.people.putMember(m);
      at = page.has_more ? page.data.at(-1)?.user_id : undefined;
    }
  }
  /** Tries to read events over HTTP. Without a network, this part may not load, and cannot help. */
  async #unopened(): Promise<void> {
    try {
      const { Polling, PollingApi } = await import('./polling');
      if (this.#stopped) return;
      this.#polling ??= new Polling({
        api: this.#ws.api.part(PollingApi),
        socket: this.#socket,
        onBlocked: (blocked) => {
          this.#ws.connection.block(blocked);
          if (!blocked) return;
          this.#ws.outbox.flush();
          void this.#ws.copy?.live(this.#isRestored);
        },
        onResync: () => void this.resync(),
        onEnded: () => this.#onEnded(),
      });
      await this.#polling.failed();
    } catch {
      // The next attempt tries again.
    }
  }
  #live(): void {
    this.#polling?.stop();
    this.#ws.outbox.flush();
    const isBack = this.#wasLive || this.#isRestored;
    const catchUp = () => isBack && void this.#catchUp();
    // the counts include markers and levels that were changed without a connection
    if (this.#ws.copy) void this.#ws.copy.live(this.#isRestored).then(catchUp);
    else {
      this.#ws.inbox.soon();
      catchUp();
    }
    this.#wasLive = true;
    this.#isRestored = false;
  }
  /** Loads presence and read markers again, because their frames are lost during a disconnection. */
  async #catchUp(): Promise<void> {
    const s = await this.recount();
    if (!s) return;
    this.#ws.reads.unsettle();
    this.#ws.people.online.clear();
    for (const p of s.presence) this.#ws.people.seen(p);
  }
  /** Loads the counts from a fresh snapshot; one that is behind the applied events is requested again. */
  async recount(): Promise<Snapshot | null> {
    try {
      for (let i = 0; i < RECOUNTS_MAX; i++) {
        const { levels } = this.#ws.channels;
        const addLevels = this.#ws.copy?.waitingLevels();
        const s = await this.#snapshot();
        if (s.seq < this.#socket.cursor) continue;
        addLevels?.(s.channels);
        this.#ws.agentsState = s.agents_state;
        this.#ws.fileBytesMax = s.limits.upload_bytes_max;
        this.#ws.channels.recount(s.channels, s.seq, levels);
        this.#ws.threads.setMuted(s.muted_threads);
        return s;
      }
    } catch {
      // The next reconnection tries again.
    }
    return null;
  }
  /** Loads everything again, on the same screen, because the log no longer reaches back to the cursor. */
  async resync(): Promise<void> {
    try {
      const s = await this.#load();
      this.#open.reload((fork) => this.#ws.forkActions.isStarting(fork));
      await this.#connect(s);
    } catch (e) {
      if (this.#stopped) return;
      if (e instanceof ApiError && isDemand(e.code)) this.#fail(e);
      else setTimeout(() => void this.resync(), 3000);
    }
  }
  /** Called when the network may be back, or when the user retries. */
  reconnect(): void {
    if (this.#stopped) return;
    this.#ws.connection.refresh();
    void this.#confirmed();
    this.#socket.retryNow();
    this.#ws.outbox.flush();
  }
  stop(): void {
    this.#stopped = true;
    this.#polling?.stop();
    this.#socket.stop();
  }
}
