import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ApiError, Unreachable } from '../api/problem';
import { Polling } from './polling';

type Deps = ConstructorParameters<typeof Polling>[0];
let health: ReturnType<typeof vi.fn<() => Promise<void>>>;
let events: ReturnType<typeof vi.fn<Deps['api']['events']>>;
let socket: Deps['socket'];
let deps: Deps;
let polling: Polling;
const page = (seqs: number[], more: object = {}) => ({
  object: 'list' as const,
  data: seqs.map((seq) => ({ type: 'message.created', seq })) as never,
  has_more: false,
  first_id: null,
  last_id: null,
  seq: seqs.at(-1) ?? 0,
  epoch: 'e1',
  ...more,
});

beforeEach(() => {
  vi.useFakeTimers();
  health = vi.fn(() => Promise.resolve());
  events = vi.fn(() => Promise.resolve(page([])));
  socket = {
    cursor: 10,
    epoch: 'e1',
    isBlocked: false,
    replay: vi.fn(function (this: { cursor: number }, event: { seq: number }) {
      this.cursor = event.seq;
    }),
    retryNow: vi.fn(),
  };
  deps = { api: { health, events }, socket, onBlocked: vi.fn(), onResync: vi.fn(), onEnded: vi.fn() };
  polling = new Polling(deps);
});
afterEach(() => polling.stop());
const fail = async (times: number) => {
  for (let n = 0; n < times; n++) await polling.failed();
};

test('one failed attempt, or a server that is down, does not count as blocked', async () => {
  await fail(1);
  health.mockRejectedValueOnce(new Unreachable(false));
  await fail(2);
  expect(deps.onBlocked).not.toHaveBeenCalled();
  expect(events).not.toHaveBeenCalled();
});
test('after two failures with an answer over HTTP, events are read every 3 seconds', async () => {
  events.mockResolvedValueOnce(page([11, 12], { has_more: true }));
  events.mockResolvedValueOnce(page([13]));
  await fail(2);
  expect(deps.onBlocked).toHaveBeenCalledWith(true);
  expect(socket.isBlocked).toBe(true);
  await vi.advanceTimersByTimeAsync(0); // the next page follows at once
  expect(events.mock.calls).toEqual([[10], [12]]);
  await vi.advanceTimersByTimeAsync(2999);
  expect(events).toHaveBeenCalledTimes(2);
  await vi.advanceTimersByTimeAsync(1);
  expect(events).toHaveBeenLastCalledWith(13);
});
test('polling ends when the socket opens', async () => {
  await fail(2);
  polling.stop();
  expect(deps.onBlocked).toHaveBeenLastCalledWith(false);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(events).toHaveBeenCalledTimes(1);
});
test('a request that fails ends polling, and the socket is tried again', async () => {
  await fail(2);
  events.mockRejectedValueOnce(new Unreachable(false));
  await vi.advanceTimersByTimeAsync(3000);
  expect(deps.onBlocked).toHaveBeenLastCalledWith(false);
  expect(socket.retryNow).toHaveBeenCalled();
});
test('an ended session ends the workspace, and an expired cursor loads the snapshot', async () => {
  events.mockRejectedValueOnce(new ApiError(401, { error: { message: 'No.' } }, ''));
  await fail(2);
  expect(deps.onEnded).toHaveBeenCalled();
  events.mockResolvedValueOnce(page([], { resync: true }));
  await fail(2);
  expect(deps.onResync).toHaveBeenCalled();
  expect(deps.onBlocked).toHaveBeenLastCalledWith(false);
});
