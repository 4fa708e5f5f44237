import {
  isDurable,
  type AckFrame,
  type CompactDelta,
  type DroppableFrame,
  type ReadyFrame,
  type ServerEvent,
  type ServerFrame,
  type StreamStart,
} from './events';

export type SocketState = 'connecting' | 'live' | 'down';
export interface SocketHandlers {
  onEvent(event: ServerEvent): void;
  onFrame(frame: DroppableFrame): void;
  onState(state: SocketState): void;
  /** The cursor is too old to resume: load a snapshot, then call `start`. */
  onResync(): void;
  /** The session or membership has ended (4001, 4003). No reconnection until `start`. */
  onRefused(code: number): void;
  /** The connection was lost before it was ready. */
  onUnopened(): void;
}
/** The part of WebSocket that is used, so that tests can replace it. */
export interface WebSocketLike {
  onopen: (() => void) | null;
  onmessage: ((e: { data: unknown }) => void) | null;
  onclose: ((e: { code: number }) => void) | null;
  send(data: string): void;
  close(code?: number): void;
}
export interface SocketDeps {
  open(url: string): WebSocketLike;
  random(): number;
  setTimeout(f: () => void, ms: number): number;
  clearTimeout(id: number): void;
}
export interface Position {
  epoch: string;
  seq: number;
}

const isChannel = (place: string) => place.startsWith('chan_');

/** The frame field that names a conversation or channel, which depends on the prefix of its ID. */
const named = (place: string) =>
  isChannel(place)
    ? { channel_id: place }
    : place.startsWith('fork_')
      ? { fork_id: place }
      : { thread_id: place };

const BACK_OFF_MS = [500, 1000, 2000, 5000, 10_000];
const BLOCKED_RETRY_MS = 60_000;
const GIVE_UP_OPENING_MS = 10_000;
const PROBE_MS = 4000;
/** Maximum number of streams whose numbers are kept. */
const STREAMS_MAX = 300;
const RESUBSCRIBE_EVERY_MS = 500;

const browser: SocketDeps = {
  open: (url) => new WebSocket(url) as WebSocketLike,
  random: Math.random,
  setTimeout: (f, ms) => window.setTimeout(f, ms),
  clearTimeout: (id) => window.clearTimeout(id),
};

/** A subscription to a conversation or channel, and the number of views that share it. */
interface Subscription {
  views: number;
  /** For a channel, resolves when its events start to arrive. */
  readonly opened: Promise<void>;
  readonly resolve: () => void;
}

/**
 * Socket of one workspace: hello, replay from the cursor, live events, heartbeat timeout, back-off. The
 * cursor is the highest `seq` of an event, `live`, or heartbeat. The `seq` in `ready` never counts, because
 * events before it have yet to arrive.
 */
export class Socket {
  #url: string;
  #workspace: string;
  #handlers: SocketHandlers;
  #deps: SocketDeps;
  #at: Position = { epoch: '', seq: 0 };
  #webSocket: WebSocketLike | null = null;
  #state: SocketState = 'down';
  #failures = 0;
  /** True once this connection was ready. */
  #isReady = false;
  /** True if something between here and the server does not let sockets through: retries are rare. */
  isBlocked = false;
  #stopped = true;
  #retry: number | null = null;
  #watchdog: number | null = null;
  #silenceMs = 50_000;
  #places = new Map<string, Subscription>();
  /** Channels named in the hello of this connection; null until it is sent. */
  #greeted: Set<string> | null = null;
  #requests = 0;
  /** Subscriptions without a response yet, by request ID. */
  #requested = new Map<string, Subscription>();
  /** Streams of this connection by their numbers in compact deltas. */
  #streams = new Map<number, StreamStart>();
  #resubscribing: number | null = null;

  constructor(url: string, workspace: string, handlers: SocketHandlers, deps: SocketDeps = browser) {
    this.#url = url;
    this.#workspace = workspace;
    this.#handlers = handlers;
    this.#deps = deps;
  }

  get cursor(): number {
    return this.#at.seq;
  }
  get epoch(): string {
    return this.#at.epoch;
  }
  get state(): SocketState {
    return this.#state;
  }

  /**
   * Starts at the position of a snapshot. Called again after each further snapshot; subscriptions can be made
   * before the first call.
   */
  start(at: Position): void {
    this.#drop();
    this.#at = at;
    this.#failures = 0;
    this.#stopped = false;
    this.#open();
  }
  stop(): void {
    this.#stopped = true;
    this.#drop();
    this.#set('down');
  }
  /** Reconnects immediately, because the network may be available again. */
  retryNow(): void {
    if (this.#stopped) return;
    if (this.#webSocket) return this.#probe();
    this.#failures = 0;
    this.#open();
  }

  /**
   * Subscribes to a thread, a fork, or a channel. Subscriptions are counted, so that two views of the same one
   * are independent. For a channel, resolves when its events start to arrive. Without a connection, resolves
   * immediately, because the next connection replays them from the cursor.
   */
  subscribe(place: string): Promise<void> {
    const known = this.#places.get(place);
    if (known) {
      known.views++;
      return known.opened;
    }
    let resolve = () => {};
    const opened = new Promise<void>((done) => (resolve = done));
    const subscription = { views: 1, opened, resolve };
    this.#places.set(place, subscription);
    if (this.#state === 'live') this.#subscribe(place, subscription);
    else if (!this.#greeted) resolve(); // the next hello names the channel
    return opened;
  }
  isSubscribed(place: string): boolean {
    return this.#places.has(place);
  }
  unsubscribe(place: string): void {
    const known = this.#places.get(place);
    if (!known || --known.views > 0) return;
    this.#places.delete(place);
    this.#request({ type: 'unsubscribe', ...named(place) });
  }
  /** Subscribes again after a delta that did not fit: the server sends the whole text so far. */
  resubscribe(place: string): void {
    if (this.#places.has(place)) this.#request({ type: 'subscribe', ...named(place) });
  }
  typing(place: string): void {
    this.#send({ type: 'typing', ...named(place) });
  }
  /** The user had input in this window. */
  active(): void {
    this.#send({ type: 'active' });
  }

  #open(): void {
    this.#cancel();
    this.#isReady = false;
    this.#set('connecting');
    let webSocket: WebSocketLike;
    try {
      webSocket = this.#deps.open(this.#url);
    } catch {
      return this.#lost();
    }
    this.#webSocket = webSocket;
    this.#watch(GIVE_UP_OPENING_MS);
    webSocket.onopen = () => {
      const { epoch, seq } = this.#at;
      const greeted = new Set([...this.#places.keys()].filter(isChannel));
      this.#greeted = greeted;
      const hello = { type: 'hello', protocol: 1, workspace_id: this.#workspace, epoch, since: seq };
      const channels = greeted.size ? { channels: [...greeted] } : {};
      webSocket.send(JSON.stringify({ ...hello, scope: 'joined', deltas: 'compact', ...channels }));
    };
    webSocket.onmessage = (e) => {
      if (this.#webSocket === webSocket && typeof e.data === 'string') this.#receive(e.data);
    };
    webSocket.onclose = (e) => {
      if (this.#webSocket !== webSocket) return;
      this.#webSocket = null;
      this.#cancel();
      this.#forget();
      if (e.code === 4001 || e.code === 4003) {
        this.#stopped = true;
        this.#set('down');
        this.#handlers.onRefused(e.code);
      } else if (e.code === 4008) {
        this.#open(); // closed because it was too slow: the rest is replayed from the log
      } else this.#lost();
    };
  }

  #receive(data: string): void {
    let frame: ServerFrame;
    try {
      frame = JSON.parse(data) as ServerFrame;
    } catch {
      return;
    }
    this.#watch(this.#silenceMs);
    if (Array.isArray(frame)) return this.#delta(frame);
    if (isDurable(frame)) return this.replay(frame);
    switch (frame.type) {
      case 'ready':
        return this.#ready(frame);
      case 'live':
        this.#reach(frame.seq);
        this.#failures = 0;
        this.#set('live');
        this.#subscribeAll();
        return;
      case 'heartbeat':
        this.#reach(frame.seq);
        this.#request({ type: 'ping' }); // browsers cannot send WebSocket pings, and the server closes silent sockets
        return;
      case 'ack':
      case 'error':
        return this.#answered(frame);
      default:
        if (frame.type === 'task.delta' && frame.stream !== undefined)
          this.#started({ ...frame, stream: frame.stream });
        // The parts of the state ignore types that they do not know.
        return this.#handlers.onFrame(frame);
    }
  }

  /** Applies an event, which was received here or over HTTP, once. */
  replay(event: ServerEvent): void {
    if (event.seq <= this.#at.seq) return;
    this.#at = { ...this.#at, seq: event.seq };
    this.#handlers.onEvent(event);
  }
  #subscribe(place: string, subscription: Subscription): void {
    const id = this.#request({ type: 'subscribe', ...named(place) });
    if (!id) return;
    this.#requested.set(id, subscription);
    this.#watch(PROBE_MS);
  }
  /** Subscribes to everything except for the channels in the hello. */
  #subscribeAll(): void {
    const greeted = this.#greeted ?? new Set<string>();
    for (const [place, subscription] of this.#places)
      if (!greeted.has(place)) this.#subscribe(place, subscription);
    for (const channel of greeted)
      if (!this.#places.has(channel)) this.#request({ type: 'unsubscribe', ...named(channel) });
  }
  #delta([stream, offset, text]: CompactDelta): void {
    const start = this.#streams.get(stream);
    if (!start) return this.#resubscribeAll();
    this.#handlers.onFrame({ ...start, type: 'task.delta', offset, text });
  }
  #started({ stream, task_id, message_id, attempt }: StreamStart): void {
    this.#streams.set(stream, { stream, task_id, message_id, attempt });
    if (this.#streams.size > STREAMS_MAX) this.#streams.delete(this.#streams.keys().next().value!);
  }
  /**
   * Subscribes again, because the first delta of a stream, which contains its number, was dropped: the
   * response repeats the number.
   */
  #resubscribeAll(): void {
    if (this.#resubscribing !== null) return;
    this.#resubscribing = this.#deps.setTimeout(() => (this.#resubscribing = null), RESUBSCRIBE_EVERY_MS);
    for (const place of this.#places.keys()) if (!isChannel(place)) this.resubscribe(place);
  }
  #answered(frame: AckFrame | { id: unknown }): void {
    const streams = 'data' in frame ? (frame.data as { streams?: StreamStart[] }).streams : undefined;
    for (const stream of streams ?? []) this.#started(stream);
    const id = String(frame.id);
    this.#requested.get(id)?.resolve();
    this.#requested.delete(id);
  }
  /** Clears the state of a connection. The next connection replays the events of the open channels. */
  #forget(): void {
    for (const subscription of this.#places.values()) subscription.resolve();
    this.#requested.clear();
    this.#streams.clear();
    this.#greeted = null;
  }

  /** Checks a connection that may have died unnoticed, and closes it if there is no quick response. */
  #probe(): void {
    if (this.#state !== 'live') return;
    this.#request({ type: 'ping' });
    this.#watch(PROBE_MS);
  }
  #ready(frame: ReadyFrame): void {
    this.#isReady = true;
    this.#silenceMs = frame.heartbeat_ms * 2.5;
    if (frame.resync || frame.epoch !== this.#at.epoch) {
      this.#stopped = true;
      this.#drop();
      this.#set('connecting');
      this.#handlers.onResync();
    }
  }
  #reach(seq: number): void {
    if (seq > this.#at.seq) this.#at = { ...this.#at, seq };
  }
  /** Returns the request's ID; null without a connection. */
  #request(frame: object): string | null {
    if (this.#state !== 'live') return null;
    const id = String(++this.#requests);
    this.#send({ id, ...frame });
    return id;
  }
  #send(frame: object): void {
    if (this.#state === 'live') this.#webSocket?.send(JSON.stringify(frame));
  }
  #lost(): void {
    if (this.#stopped) return;
    this.#set('down');
    const backOff = BACK_OFF_MS[Math.min(this.#failures, BACK_OFF_MS.length - 1)]!;
    const base = this.isBlocked ? BLOCKED_RETRY_MS : backOff;
    this.#failures++;
    if (!this.#isReady) this.#handlers.onUnopened();
    this.#retry = this.#deps.setTimeout(() => this.#open(), base * (0.75 + this.#deps.random() * 0.5));
  }
  #watch(ms: number): void {
    if (this.#watchdog !== null) this.#deps.clearTimeout(this.#watchdog);
    this.#watchdog = this.#deps.setTimeout(() => {
      this.#drop();
      this.#lost();
    }, ms);
  }
  #cancel(): void {
    if (this.#watchdog !== null) this.#deps.clearTimeout(this.#watchdog);
    if (this.#retry !== null) this.#deps.clearTimeout(this.#retry);
    this.#watchdog = this.#retry = null;
  }
  #drop(): void {
    const webSocket = this.#webSocket;
    this.#webSocket = null;
    this.#cancel();
    this.#forget();
    webSocket?.close(1000);
  }
  #set(state: SocketState): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#handlers.onState(state);
  }
}
