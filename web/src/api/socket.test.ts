import { beforeEach, expect, test, vi } from 'vitest';
import type { ServerEvent } from './events';
import { Socket, type SocketHandlers, type WebSocketLike } from './socket';
import { message } from '../test/make';

class FakeWebSocket implements WebSocketLike {
  onopen: (() => void) | null = null;
  onmessage: ((e: { data: unknown }) => void) | null = null;
  onclose: ((e: { code: number }) => void) | null = null;
  sent: Record<string, unknown>[] = [];
  closed = false;
  send(data: string) {
    this.sent.push(JSON.parse(data) as Record<string, unknown>);
  }
  close() {
    this.closed = true;
  }
  /** Delivers frames as the server would. */
  receives(...frames: object[]) {
    for (const f of frames) this.onmessage?.({ data: JSON.stringify(f) });
  }
  drops(code = 1006) {
    this.onclose?.({ code });
  }
}

let wires: FakeWebSocket[];
let events: ServerEvent[];
let states: string[];
let handlers: SocketHandlers;
let socket: Socket;

const ready = (seq: number, more: object = {}) => ({
  type: 'ready',
  protocol: 1,
  session_id: 's',
  epoch: 'e1',
  seq,
  heartbeat_ms: 20000,
  resumed: true,
  ...more,
});
const created = (seq: number) => ({
  type: 'message.created',
  seq,
  ts: '',
  data: { message: message({ seq }) },
});
const webSocket = () => wires.at(-1)!;
const open = () => {
  webSocket().onopen?.();
  return webSocket();
};

beforeEach(() => {
  vi.useFakeTimers();
  wires = [];
  events = [];
  states = [];
  handlers = {
    onEvent: (e) => void events.push(e),
    onFrame: vi.fn(),
    onState: (s) => void states.push(s),
    onResync: vi.fn(),
    onRefused: vi.fn(),
    onUnopened: vi.fn(),
  };
  socket = new Socket('ws://x', 'ws_1', handlers, {
    open: () => {
      const w = new FakeWebSocket();
      wires.push(w);
      return w;
    },
    random: () => 0.5,
    setTimeout: (f, ms) => setTimeout(f, ms) as unknown as number,
    clearTimeout: (id) => clearTimeout(id),
  });
  socket.start({ epoch: 'e1', seq: 10 });
});

test('hello names the workspace, the epoch, and the cursor', () => {
  expect(open().sent).toEqual([
    {
      type: 'hello',
      protocol: 1,
      workspace_id: 'ws_1',
      epoch: 'e1',
      since: 10,
      scope: 'joined',
      deltas: 'compact',
    },
  ]);
});

test('the cursor follows events, live, and heartbeats, but not ready', () => {
  open().receives(ready(99));
  expect(socket.cursor).toBe(10);
  webSocket().receives(created(11), created(14));
  expect(socket.cursor).toBe(14);
  webSocket().receives({ type: 'live', seq: 20 });
  expect(socket.cursor).toBe(20);
  webSocket().receives({ type: 'heartbeat', seq: 25 });
  expect(socket.cursor).toBe(25);
  webSocket().receives({ type: 'heartbeat', seq: 24 });
  expect(socket.cursor).toBe(25);
});

test('an event is applied once, even if it is replayed', () => {
  open().receives(
    ready(12),
    created(11),
    created(11),
    created(12),
    { type: 'live', seq: 12 },
    created(12),
    created(13),
  );
  expect(events.map((e) => e.seq)).toEqual([11, 12, 13]);
});

test('after a drop, it reconnects with the cursor, with increasing delays', () => {
  open().receives(ready(11), created(11), { type: 'live', seq: 11 });
  webSocket().drops();
  expect(states.at(-1)).toBe('down');
  vi.advanceTimersByTime(499);
  expect(wires).toHaveLength(1);
  vi.advanceTimersByTime(1);
  expect(wires).toHaveLength(2);
  webSocket().drops();
  vi.advanceTimersByTime(999);
  expect(wires).toHaveLength(2);
  vi.advanceTimersByTime(1);
  expect(open().sent[0]).toMatchObject({ type: 'hello', since: 11 });
});

test('a connection that never was ready is reported, and retries are rare while sockets are blocked', () => {
  webSocket().drops();
  expect(handlers.onUnopened).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(500);
  open().receives(ready(10));
  webSocket().drops();
  expect(handlers.onUnopened).toHaveBeenCalledTimes(1);
  socket.isBlocked = true;
  vi.advanceTimersByTime(1000);
  webSocket().drops();
  const before = wires.length;
  vi.advanceTimersByTime(59_999);
  expect(wires).toHaveLength(before);
  vi.advanceTimersByTime(1);
  expect(wires).toHaveLength(before + 1);
});
test('an event that was read over HTTP is applied once', () => {
  socket.replay(created(11) as ServerEvent);
  open().receives(ready(12), created(11), created(12));
  expect(events.map((e) => e.seq)).toEqual([11, 12]);
});
test('going live resets the delay', () => {
  for (let i = 0; i < 3; i++) {
    webSocket().drops();
    vi.advanceTimersByTime(10_000);
  }
  open().receives(ready(10), { type: 'live', seq: 10 });
  webSocket().drops();
  vi.advanceTimersByTime(500);
  expect(wires).toHaveLength(5);
});

test('coming back online skips the back-off', () => {
  webSocket().drops();
  socket.retryNow();
  expect(wires).toHaveLength(2);
  socket.retryNow();
  expect(wires).toHaveLength(2);
});

test('a connection that died with the network is detected when the network is back', () => {
  open().receives(ready(10), { type: 'live', seq: 10 });
  socket.retryNow();
  expect(webSocket().sent.at(-1)).toMatchObject({ type: 'ping' });
  webSocket().receives({ type: 'ack', id: '1' });
  vi.advanceTimersByTime(10_000);
  expect(states.at(-1)).toBe('live');
  socket.retryNow();
  vi.advanceTimersByTime(4000);
  expect(states.at(-1)).toBe('down');
});

test('too slow (4008) reconnects immediately; signed out (4001) does not', () => {
  open().receives(ready(10), { type: 'live', seq: 10 });
  webSocket().drops(4008);
  expect(wires).toHaveLength(2);
  webSocket().drops(4001);
  vi.advanceTimersByTime(60_000);
  expect(wires).toHaveLength(2);
  expect(handlers.onRefused).toHaveBeenCalledWith(4001);
});

test('resync asks for a snapshot and starts again from there', () => {
  open().receives(ready(500, { resync: true, resumed: false, epoch: 'e2' }));
  expect(handlers.onResync).toHaveBeenCalledOnce();
  expect(webSocket().closed).toBe(true);
  vi.advanceTimersByTime(60_000);
  expect(wires).toHaveLength(1);
  socket.start({ epoch: 'e2', seq: 500 });
  expect(open().sent[0]).toMatchObject({ epoch: 'e2', since: 500 });
});

test('silence for two and a half heartbeats is a drop', () => {
  open().receives(ready(10), { type: 'live', seq: 10 });
  vi.advanceTimersByTime(49_000);
  webSocket().receives({ type: 'heartbeat', seq: 10 });
  vi.advanceTimersByTime(49_000);
  expect(states.at(-1)).toBe('live');
  vi.advanceTimersByTime(1001);
  expect(states.at(-1)).toBe('down');
});

test('a heartbeat gets a response, so that the server does not time out', () => {
  open().receives(ready(10), { type: 'live', seq: 10 }, { type: 'heartbeat', seq: 10 });
  expect(webSocket().sent.at(-1)).toMatchObject({ type: 'ping' });
});

test('conversations are subscribed when live, again after a drop, and counted', () => {
  void socket.subscribe('thread_1');
  void socket.subscribe('thread_1');
  expect(open().sent).toHaveLength(1);
  webSocket().receives(ready(10), { type: 'live', seq: 10 });
  expect(webSocket().sent.filter((f) => f.type === 'subscribe')).toHaveLength(1);
  socket.unsubscribe('thread_1');
  expect(webSocket().sent.some((f) => f.type === 'unsubscribe')).toBe(false);
  webSocket().drops();
  vi.advanceTimersByTime(500);
  open().receives(ready(10), { type: 'live', seq: 10 });
  expect(webSocket().sent.at(-1)).toMatchObject({ type: 'subscribe', thread_id: 'thread_1' });
  socket.unsubscribe('thread_1');
  expect(webSocket().sent.at(-1)).toMatchObject({ type: 'unsubscribe' });
});

test('each request has its own ID', () => {
  open().receives(ready(10), { type: 'live', seq: 10 });
  void socket.subscribe('thread_1');
  void socket.subscribe('thread_2');
  const ids = webSocket()
    .sent.slice(1)
    .map((f) => f.id);
  expect(new Set(ids).size).toBe(2);
});

test('frames that are not JSON are ignored', () => {
  open().onmessage?.({ data: '{' });
  webSocket().receives(ready(10), created(11));
  expect(events).toHaveLength(1);
});

/** Requests of this type that the client has sent. */
const requests = (type: string) => webSocket().sent.filter((f) => f.type === type);

test('open channels are named in the hello, and not subscribed again', () => {
  void socket.subscribe('chan_1');
  void socket.subscribe('thread_1');
  expect(open().sent[0]).toMatchObject({ type: 'hello', channels: ['chan_1'] });
  webSocket().receives(ready(10), { type: 'live', seq: 10 });
  expect(requests('subscribe')).toEqual([{ id: '1', type: 'subscribe', thread_id: 'thread_1' }]);
  socket.unsubscribe('chan_1');
  expect(requests('unsubscribe')).toEqual([{ id: '2', type: 'unsubscribe', channel_id: 'chan_1' }]);
});

test('a channel that is closed while connecting is unsubscribed', () => {
  void socket.subscribe('chan_1');
  open();
  socket.unsubscribe('chan_1');
  webSocket().receives(ready(10), { type: 'live', seq: 10 });
  expect(requests('unsubscribe')).toMatchObject([{ channel_id: 'chan_1' }]);
});

test('a subscription resolves with its response', async () => {
  let done = 0;
  open().receives(ready(10), { type: 'live', seq: 10 });
  void socket.subscribe('chan_1').then(() => done++);
  void socket.subscribe('chan_1').then(() => done++);
  await Promise.resolve();
  expect(done).toBe(0);
  webSocket().receives({ type: 'ack', id: requests('subscribe')[0]!.id, data: {} });
  await Promise.resolve();
  expect(done).toBe(2);
});

test('a connection without a response to a subscription is replaced', () => {
  open().receives(ready(10), { type: 'live', seq: 10 });
  void socket.subscribe('chan_1');
  vi.advanceTimersByTime(4000);
  expect(socket.state).toBe('down');
});

test('a subscription resolves without a response if the next hello names the channel', async () => {
  let done = 0;
  open().receives(ready(10), { type: 'live', seq: 10 });
  void socket.subscribe('chan_1').then(() => done++);
  webSocket().drops();
  await Promise.resolve();
  expect(done).toBe(1);
  vi.advanceTimersByTime(500);
  expect(open().sent[0]).toMatchObject({ channels: ['chan_1'] });
});

test('a channel that is opened after the hello is subscribed when live', async () => {
  let done = 0;
  open().receives(ready(10));
  void socket.subscribe('chan_1').then(() => done++);
  webSocket().receives({ type: 'live', seq: 10 });
  await Promise.resolve();
  expect(done).toBe(0);
  webSocket().receives({ type: 'ack', id: requests('subscribe')[0]!.id, data: {} });
  await vi.waitFor(() => expect(done).toBe(1));
});

const start = { stream: 7, task_id: 'task_1', message_id: 'msg_1', attempt: 2 };

test('compact deltas belong to the stream that a delta or a subscription named', () => {
  open().receives(ready(10), { type: 'live', seq: 10 });
  webSocket().receives({ type: 'task.delta', ...start, offset: 0, text: 'Hel' }, [7, 3, 'lo']);
  expect(handlers.onFrame).toHaveBeenLastCalledWith({ type: 'task.delta', ...start, offset: 3, text: 'lo' });
  void socket.subscribe('thread_1');
  const id = requests('subscribe')[0]!.id;
  webSocket().receives({
    type: 'ack',
    id,
    data: { streams: [{ ...start, stream: 8, message_id: 'msg_2' }] },
  });
  webSocket().receives([8, 0, 'Hi']);
  expect(handlers.onFrame).toHaveBeenLastCalledWith({
    type: 'task.delta',
    ...start,
    stream: 8,
    message_id: 'msg_2',
    offset: 0,
    text: 'Hi',
  });
});

test('a compact delta of an unknown stream subscribes again, at most every 500 ms', () => {
  open().receives(ready(10), { type: 'live', seq: 10 });
  void socket.subscribe('thread_1');
  void socket.subscribe('chan_1');
  webSocket().receives([9, 3, 'lo'], [9, 5, '!']);
  expect(requests('subscribe').map((f) => f.thread_id ?? f.channel_id)).toEqual([
    'thread_1',
    'chan_1',
    'thread_1',
  ]);
  expect(handlers.onFrame).not.toHaveBeenCalled();
  vi.advanceTimersByTime(500);
  webSocket().receives([9, 6, '!']);
  expect(requests('subscribe')).toHaveLength(4);
});

test('numbers of streams end with their connection', () => {
  open().receives(ready(10), { type: 'live', seq: 10 });
  webSocket().receives({ type: 'task.delta', ...start, offset: 0, text: 'Hel' });
  webSocket().drops();
  vi.advanceTimersByTime(500);
  open().receives(ready(10), { type: 'live', seq: 10 }, [7, 3, 'lo']);
  expect(handlers.onFrame).toHaveBeenCalledTimes(1);
});
