import type { Transport } from '../api/http';
import { ApiError } from '../api/problem';
import type { components } from '../api/schema';
import type { Socket } from '../api/socket';

type EventPage = components['schemas']['Events'];

/** Routes that replace the socket; loaded only if it does not open. */
export class PollingApi {
  #transport: Transport;
  constructor(transport: Transport) {
    this.#transport = transport;
  }
  /** Fails if the server does not answer over HTTP either. */
  async health(): Promise<void> {
    const { http, take } = this.#transport;
    await take(http.GET('/healthz', { parseAs: 'text' }));
  }
  /** The next events, oldest first. */
  events(after: number): Promise<EventPage> {
    const { http, take } = this.#transport;
    return take(http.GET('/v1/events', { params: { query: { after, limit: 100 } } }));
  }
}

const READ_EVERY_MS = 3000;
/** Attempts to open the socket that fail while the server answers over HTTP, before it counts as blocked. */
const FAILURES_MAX = 2;

interface PollingDeps {
  api: Pick<PollingApi, 'health' | 'events'>;
  socket: Pick<Socket, 'cursor' | 'epoch' | 'isBlocked' | 'replay' | 'retryNow'>;
  /** Called when polling starts or ends. */
  onBlocked(blocked: boolean): void;
  /** The snapshot has to be loaded again. */
  onResync(): void;
  /** The session or the membership has ended. */
  onEnded(): void;
}

/** Reads events over HTTP while a proxy does not let the socket through. */
export class Polling {
  #deps: PollingDeps;
  #failures = 0;
  #checking = false;
  #reading = false;
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(deps: PollingDeps) {
    this.#deps = deps;
  }
  /** The socket was lost before it was ready. */
  async failed(): Promise<void> {
    if (this.#checking || this.#reading) return;
    this.#checking = true;
    try {
      await this.#deps.api.health();
      this.#failures++;
    } catch {
      this.#failures = 0; // the server or the network is down
    }
    this.#checking = false;
    if (this.#failures < FAILURES_MAX) return;
    this.#set(true);
    await this.#read();
  }
  /** The socket is open, or the workspace is left. */
  stop(): void {
    this.#failures = 0;
    if (this.#reading) this.#set(false);
  }
  #set(reading: boolean): void {
    this.#reading = this.#deps.socket.isBlocked = reading;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#deps.onBlocked(reading);
  }
  async #read(): Promise<void> {
    const { api, socket } = this.#deps;
    let page: EventPage;
    try {
      page = await api.events(socket.cursor);
    } catch (e) {
      if (!this.#reading) return;
      this.stop();
      if (e instanceof ApiError && e.status === 401) return this.#deps.onEnded();
      return socket.retryNow();
    }
    if (!this.#reading) return;
    if (page.resync || page.epoch !== socket.epoch) {
      this.stop();
      return this.#deps.onResync();
    }
    for (const event of page.data) socket.replay(event);
    this.#timer = setTimeout(() => void this.#read(), page.has_more ? 0 : READ_EVERY_MS);
  }
}
