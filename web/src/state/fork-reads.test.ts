import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { mine, Scene } from '../test/backend';
import { fork, message } from '../test/make';

let scene: Scene;
const state = () => scene.ws.fork('fork_1');
const puts = () => scene.backend.calls.filter((call) => call.startsWith('PUT /v1/forks/fork_1/read')).length;
const unread = () => scene.ws.forks.get('fork_1')?.unread_count;
const ALL = { level: 'all', cause: 'fork' } as const;

beforeEach(async () => {
  vi.useFakeTimers();
  scene = new Scene();
  const own = { follow: ALL, read_seq: 4, unread_count: 2, first_unread_id: 'msg_6' };
  scene.backend.forks.set('fork_1', { ...fork({ id: 'fork_1' }), ...own });
  scene.backend.messages = [4, 6, 8].map((seq) => message({ id: `msg_${seq}`, seq, fork_id: 'fork_1' }));
  scene.backend.messages.push(message({ id: 'msg_1', seq: 1 }));
  await scene.ws.start();
  await state().load();
});
afterEach(() => {
  scene.ws.stop();
  vi.useRealTimers();
});

test('a dive opens with a divider at its first unread message', () => {
  expect(state().reading.divider?.id).toBe('msg_6');
  expect(unread()).toBe(2);
});
test('messages that have been on screen are read, and its own marker loads nothing', async () => {
  await state().reading.seen([6, 8]);
  expect(scene.backend.bodies).toContainEqual({ seq: 8 });
  expect([puts(), unread()]).toEqual([1, 0]);
  scene.backend.calls = [];
  scene.ws.onFrame({ type: 'fork_read.updated', fork_id: 'fork_1', seq: 8 });
  await vi.advanceTimersByTimeAsync(10);
  expect(scene.backend.calls).toEqual([]);
});
test('people who have not joined the channel have no marker', async () => {
  scene.ws.channels.leave('chan_1');
  await state().reading.seen([6, 8]);
  expect(puts()).toBe(0);
  expect(state().reading.done).toBe(true);
});
test('a marker or a level of another window is applied, and the count is loaded again', async () => {
  scene.backend.calls = [];
  scene.ws.onFrame({ type: 'fork_read.updated', fork_id: 'fork_1', seq: 8 });
  expect(state().reading.readSeq).toBe(8);
  scene.ws.onFrame({
    type: 'fork_follow.updated',
    fork_id: 'fork_1',
    follow: { level: 'none', cause: 'manual' },
  });
  expect(scene.ws.forks.get('fork_1')?.follow?.level).toBe('none');
  expect(scene.backend.calls.filter((call) => call === 'GET /v1/forks/fork_1')).toHaveLength(2);
});
test('messages of others count for followers, and not in the channel', () => {
  const before = scene.ws.channels.map.get('chan_1')?.unread_count;
  state().leave();
  scene.created({ fork_id: 'fork_1' });
  scene.created({ ...mine({ fork_id: 'fork_1' }), seq: 200 });
  expect(unread()).toBe(3);
  scene.ws.forks.patch('fork_1', { follow: { level: 'mentions', cause: null } });
  scene.created({ fork_id: 'fork_1' });
  expect(unread()).toBe(3);
  expect(scene.ws.channels.map.get('chan_1')?.unread_count).toBe(before);
});
