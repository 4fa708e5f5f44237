import type { SocketState } from '../api/socket';

/** `blocked`: Something lets requests through to the server, but no socket. */
export type Net = 'online' | 'reconnecting' | 'blocked' | 'offline';
const RECONNECTING_AFTER_MS = 2000;
const OFFLINE_AFTER_MS = 10_000;

/** Connection state that the user sees: short interruptions are not shown. */
export class Connection {
  net = $state<Net>('online');
  /** True if the connection is lost although the browser is online. */
  unreachable = $state(false);
  /** True while events arrive, over the socket or over HTTP. */
  live = $state(false);
  /** Time of the copy that is shown, in ms since 1970; null once events have arrived. */
  storedAt = $state<number | null>(null);
  #socket: SocketState = 'down';
  #isBlocked = false;
  #since: number | null = null;
  #timer: ReturnType<typeof setInterval> | null = null;
  #now: () => number;
  #browserOnline: () => boolean;

  constructor(
    now: () => number = Date.now,
    browserOnline: () => boolean = () => globalThis.navigator?.onLine !== false,
  ) {
    this.#now = now;
    this.#browserOnline = browserOnline;
  }

  /** Who is to blame for a lost connection: the browser, or the server of this workspace. */
  cause(workspace: string): string {
    return this.unreachable ? `Cannot reach ${workspace}’s server.` : 'You are offline.';
  }
  /** True while requests get through. */
  get reachesServer(): boolean {
    return this.net === 'online' || this.net === 'blocked';
  }
  socket(state: SocketState): void {
    this.#socket = state;
    this.#update();
  }
  /** Called when events are read over HTTP instead of the socket, and when that ends. */
  block(isBlocked: boolean): void {
    this.#isBlocked = isBlocked;
    this.#update();
  }
  #update(): void {
    this.live = this.#socket === 'live' || this.#isBlocked;
    if (this.live) this.#since = this.storedAt = null;
    else this.#since ??= this.#now();
    this.refresh();
    if (this.live && this.#timer) {
      clearInterval(this.#timer);
      this.#timer = null;
    } else if (!this.live) this.#timer ??= setInterval(() => this.refresh(), 250);
  }
  refresh(): void {
    const lost = this.#since === null ? 0 : this.#now() - this.#since;
    const online = this.#browserOnline();
    this.unreachable = online && lost >= OFFLINE_AFTER_MS;
    if (!online || this.unreachable) this.net = 'offline';
    else if (this.#isBlocked) this.net = 'blocked';
    else this.net = lost >= RECONNECTING_AFTER_MS ? 'reconnecting' : 'online';
  }
  dispose(): void {
    if (this.#timer) clearInterval(this.#timer);
  }
}
