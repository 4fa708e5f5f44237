import type { Api } from '../api/api';
import type { DroppableFrame, OutcomeEvent, ServerEvent } from '../api/events';
import type { Position, SocketDeps } from '../api/socket';
import type { AgentsState, ChecklistStep, Task, Thread, Workspace } from '../api/types';
import { InboxApi } from '../api/inbox';
import type { Actions } from '../approvals/actions.svelte';
import type { Uploads } from '../files/uploads.svelte';
import type { ArchiveImports } from '../imports/archive-imports.svelte';
import { InboxFeed } from '../inbox/feed.svelte';
import type { InboxList } from '../inbox/list.svelte';
import { to } from '../lib/router.svelte';
import type { KeyValueStore } from '../lib/storage';
import type { WindowLocks } from '../lib/window-locks';
import type { MemoryRules } from '../memory/stops';
import type { DeviceCopy } from '../offline/device-copy';
import type { CitedMessages } from '../sources/cited-messages.svelte';
import type { ChannelState } from './channel.svelte';
import { Channels } from './channels.svelte';
import { Connection } from './connection.svelte';
import { Drafts } from './drafts.svelte';
import { EphemeralMessages } from './ephemeral.svelte';
import { ForkActions } from './fork-actions.svelte';
import type { ForkState } from './fork.svelte';
import { ForkReads } from './fork-reads';
import { Forks } from './forks.svelte';
import { Incoming } from './incoming';
import { OpenConversations } from './open-conversations';
import { Outbox, type OutboxWork } from './outbox.svelte';
import { Outcomes } from './outcomes.svelte';
import { Outgoing } from './outgoing';
import { People } from './people.svelte';
import type { UnreadCounts } from './reading.svelte';
import { Reads } from './reads.svelte';
import { SafeStore } from './safe-store.svelte';
import { Streams } from './streams.svelte';
import { Sync } from './sync';
import { Tasks } from './tasks.svelte';
import type { ThreadState } from './thread.svelte';
import { Threads } from './threads.svelte';
import { Typing } from './typing.svelte';
import type { Loading, MessageWindow } from './window.svelte';
import type { ErrorCode } from '../api/problem';
import type { WorkspaceParts } from './workspace-parts';

export interface WorkspaceDeps {
  store: KeyValueStore;
  locks: WindowLocks;
  socketUrl: string;
  socket?: SocketDeps;
  /** Checks whether the window is visible. */
  visible(): boolean;
  /** False after another window signed this user out or another user in. */
  isCurrentUser(): boolean;
  /** Resolves once it is known whether the session is this user's; the copy on this device is shown before. */
  confirmed(): Promise<boolean>;
  /** Called when the session or the membership has ended, or when the session is another user's. */
  onEnded(): void;
  /** Announces a text in the polite live region. */
  announce(text: string): void;
}

const ACTIVE_EVERY_MS = 30_000;

/**
 * State of one workspace of the user: a snapshot, kept up to date by events. All changes go through this
 * class.
 */
export class WorkspaceState implements WorkspaceParts {
  readonly id: string;
  readonly api: Api;
  status = $state<Loading>('loading');
  problem = $state('');
  refusal = $state<ErrorCode | null>(null);
  workspace = $state.raw<Workspace>({
    id: '',
    name: '',
    slug: '',
    default_agent_id: null,
    guests_use_agents: true,
    created_at: '',
  });
  /** Upload limit of the server, per file. */
  fileBytesMax = 0;
  /** Whether agents act on this server. */
  agentsState = $state<AgentsState>('running');
  /** First steps of the user; null once they are hidden. */
  checklist = $state<ChecklistStep[] | null>(null);
  readonly people = new People();
  readonly channels = new Channels(this.people);
  readonly threads: Threads = new Threads(() => this.#open.shownThreads());
  readonly forks = new Forks();
  readonly tasks: Tasks;
  readonly streams = new Streams();
  readonly connection = new Connection();
  readonly typing: Typing;
  readonly ephemeral = new EphemeralMessages();
  readonly store: SafeStore;
  readonly drafts: Drafts;
  readonly outbox: Outbox;
  readonly reads: Reads;
  readonly forkReads: ForkReads;
  readonly forkActions: ForkActions;
  readonly outcomes = new Outcomes(this);
  readonly inbox: InboxFeed;
  /** Items of the inbox; created with its page. */
  inboxList: InboxList | null = null;
  /** Tool calls, and the decisions that wait for the user; created after startup. */
  actions = $state.raw<Actions | null>(null);
  /** Switches of memory; read with the first menu that depends on them. */
  memoryRules = $state.raw<MemoryRules | null>(null);
  /** Messages that replies cite; created with the first list of sources. */
  cited: CitedMessages | null = null;
  /** Imports of archives; created with their dialog. */
  imports: ArchiveImports | null = null;
  /** Imports of the user's chats. */
  chatImports: ArchiveImports | null = null;
  /** Copy on this device; created before the start if there is one, else after startup. */
  copy: DeviceCopy | null = null;
  /** Uploads; created with the first file. */
  uploads = $state.raw<Uploads | null>(null);

  /** Names that become links in messages: only channels that the user can see. */
  readonly links = $derived(
    new Map(this.channels.rooms.map((c) => [c.name ?? '', to.channel(this.slug, c.name ?? '')])),
  );

  /** Messages and tasks, as the user changes them. */
  readonly outgoing: Outgoing;

  /** False after another window signed this user out or another user in. */
  readonly isCurrent: () => boolean;
  /** Resolves once it is known whether the session is this user's. */
  readonly confirmed: () => Promise<boolean>;
  #ref: string;
  #open = new OpenConversations(this);
  #incoming: Incoming;
  #sync: Sync;
  /** Time of the last report that the user is active. */
  #activeAt = -Infinity;

  constructor(ref: { id: string; slug: string }, user: string, api: Api, deps: WorkspaceDeps) {
    this.id = ref.id;
    this.#ref = ref.slug;
    this.api = api.in(ref.id, (request, send) => this.copy?.fetch(request, send) ?? send(request));
    this.isCurrent = () => deps.isCurrentUser();
    this.confirmed = () => deps.confirmed();
    this.#sync = new Sync(this, this.#open, {
      user,
      socketUrl: deps.socketUrl,
      socket: deps.socket,
      confirmed: () => deps.confirmed(),
      onEnded: () => deps.onEnded(),
    });
    this.#incoming = new Incoming(this, this.#open, {
      announce: (text) => deps.announce(text),
      resubscribe: (place) => this.#sync.resubscribe(place),
      left: () => this.#sync.dropStale(),
    });
    this.outgoing = new Outgoing(this, this.#open);
    this.reads = new Reads(this.api, this.threads, this.channels, {
      recount: () => void this.#sync.recount(),
      reading: (thread) => this.#open.threads.known(thread)?.reading,
    });
    this.forkReads = new ForkReads(this, (fork) => this.#open.forks.known(fork)?.reading);
    this.inbox = new InboxFeed({
      changes: (since) => this.api.part(InboxApi).changes(since),
      leads: () => !this.copy || this.outbox.leads,
      share: (since, changes) => this.copy?.shareInbox(since, changes),
      reaches: () => this.connection.reachesServer,
    });
    this.tasks = new Tasks((id) => this.api.task(id));
    this.typing = new Typing((place) => this.forkActions.isStarting(place) || this.#sync.typing(place));
    this.store = new SafeStore(deps.store);
    const scope = `${user}.${ref.id}`;
    this.drafts = new Drafts(this.store, scope);
    const work: OutboxWork = {
      post: (item) => this.outgoing.post(item),
      newestThread: (channel) => this.outgoing.newestThread(channel),
      maySend: () => deps.isCurrentUser(),
      visible: () => deps.visible(),
      elected: () => this.copy?.lead(),
      signedOut: () => deps.onEnded(),
      refused: () => deps.announce('Message not sent'),
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

  /** Last event that this state includes. */
  get position(): Position {
    return this.#sync.position;
  }
  /** Conversations and lists in memory. */
  get opened(): OpenConversations {
    return this.#open;
  }

  // --- life ---

  start(): Promise<void> {
    return this.#sync.start();
  }
  /** Called when the network may be back, or when the user retries. */
  /** Reports input in this window, at most every 30 s: active people get no notifications. */
  active(): void {
    const now = Date.now();
    if (now - this.#activeAt < ACTIVE_EVERY_MS) return;
    this.#activeAt = now;
    this.#sync.active();
  }
  reconnect(): void {
    this.#sync.reconnect();
  }
  /**
   * Called after the server closed the socket for a reason that may be temporary, such as a changed role:
   * loads everything and connects again.
   */
  resume(): Promise<void> {
    return this.#sync.resync();
  }
  stop(): void {
    this.#sync.stop();
    this.connection.dispose();
    this.typing.dispose();
    this.reads.dispose();
    this.outbox.dispose();
    this.inbox.dispose();
    this.inboxList?.dispose();
    this.actions?.dispose();
    this.uploads?.dispose();
    this.drafts.dispose();
    this.copy?.dispose();
  }

  // --- conversations ---

  thread(id: string): ThreadState {
    return this.#open.threads.get(id);
  }
  fork(id: string): ForkState {
    return this.#open.forks.get(id);
  }
  channel(id: string): ChannelState {
    return this.#open.channels.get(id);
  }
  /** Open conversation of this thread or fork, if any. */
  window(x: { thread_id: string | null; fork_id: string | null }): MessageWindow | undefined {
    return this.#open.window(x);
  }
  /**
   * Keeps a channel up to date while it is on screen, even if the user has not joined it. Resolves when its
   * events start to arrive; null if they already do.
   */
  openChannel(id: string): Promise<void> | null {
    return this.#sync.open(id);
  }
  closeChannel(id: string): void {
    this.#sync.close(id);
  }
  /**
   * Subscribes to the deltas of a thread or fork, which are sent only to subscribers. Returns a function that
   * unsubscribes.
   */
  watch(place: string): () => void {
    return this.forkActions.isStarting(place) ? () => undefined : this.#sync.watch(place);
  }
  /** Subscribes a resolution editor to events. Returns a function that unsubscribes. */
  onOutcome(listener: (e: OutcomeEvent) => void): () => void {
    return this.#incoming.onOutcome(listener);
  }
  /** Subscribes a list to events, after they have been applied. Returns a function that unsubscribes. */
  onEvent(listener: (e: ServerEvent) => void): () => void {
    return this.#incoming.onEvent(listener);
  }
  apply(e: ServerEvent): void {
    this.#incoming.apply(e);
  }
  onFrame(f: DroppableFrame): void {
    this.#incoming.onFrame(f);
    this.actions?.onFrame(f);
  }
  /** The workspace's default agent, unless the thread has its own. */
  defaultAgentOf(thread: string): string | null {
    return this.threads.map.get(thread)?.agent_id ?? this.workspace.default_agent_id;
  }
  learnThread(thread: Thread, version = this.threads.version): void {
    this.threads.learn(thread, version);
    this.#open.list(this.threads.map.get(thread.id));
  }
  /** Removes a thread that was deleted. */
  forgetThread(thread: string, channel: string): void {
    this.#open.remove(thread, channel);
    this.threads.remove(thread);
    this.inbox.spread();
  }
  learnTasks(tasks: Task[]): void {
    for (const t of tasks) this.tasks.learn(t);
  }
  /** True if markers get nowhere: neither to the server nor to the copy. */
  get #isCutOff(): boolean {
    return this.connection.net === 'offline' && !this.copy;
  }
  readTo(thread: string, seq: number): Promise<UnreadCounts | null> {
    return this.#isCutOff ? Promise.resolve(null) : this.reads.mark(thread, seq);
  }
  readForkTo(fork: string, seq: number): Promise<UnreadCounts | null> {
    const local = this.forkActions.isStarting(fork);
    return local || this.#isCutOff ? Promise.resolve(null) : this.forkReads.mark(fork, seq);
  }
}
