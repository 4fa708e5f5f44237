import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ApiError } from '../api/problem';
import { markdown } from '../lib/markdown-later';
import { UNBOUND } from '../lib/responder';
import { Scene } from '../test/backend';
import { channel, message, task } from '../test/make';
import { threadResponder, type ComposerContext } from './composer-context';
import { steeredTask, Steering } from './steering';
import type { WorkspaceState } from './workspace.svelte';

let ws: WorkspaceState;
beforeEach(async () => {
  ws = new Scene().ws;
  await ws.start();
  await vi.waitFor(() => expect(markdown()).not.toBeNull());
});
afterEach(() => ws.stop());

const target = { channel_id: 'chan_1', thread_id: 'thread_1', direct: false };
const inThread = (fork: string | null = null): ComposerContext => ({
  channel: channel(),
  conversation: { thread: 'thread_1', fork },
  responder: threadResponder(UNBOUND, channel(), ws),
});
const steered = (text: string, context = inThread()) => steeredTask(text, context, ws)?.id ?? null;

test('a draft steers the own running reply of the conversation, rather than a queued one', () => {
  expect(steered('go on')).toBeNull();
  ws.tasks.put(task({ id: 'task_1', status: 'queued' }));
  expect(steered('go on')).toBe('task_1');
  ws.tasks.put(task({ id: 'task_2', status: 'running' }));
  expect(steered('go on')).toBe('task_2');
  expect(steered('go on', { ...inThread(), conversation: null })).toBeNull();
  expect(steered('go on', inThread('fork_1'))).toBeNull();
});
test('replies to others, ended ones, and other work are not steered', () => {
  ws.tasks.put(task({ id: 'task_1', status: 'running', requested_by: 'user_bo' }));
  ws.tasks.put(task({ id: 'task_2', status: 'completed' }));
  ws.tasks.put(task({ id: 'task_3', status: 'running', kind: 'resolve' }));
  ws.tasks.put(task({ id: 'task_4', status: 'running', thread_id: 'thread_2' }));
  expect(steered('go on')).toBeNull();
});
test('a draft for other agents, for people, or with a command steers nothing', () => {
  ws.tasks.put(task({ status: 'running' }));
  expect(steered('@vibe go on')).toBe('task_1');
  for (const text of ['@coder go on', '@vibe @coder go on', '@everyone look', '/agent coder'])
    expect(steered(text), text).toBeNull();
});
test('a message keeps its task in the outbox, and composers that are gone steer nothing', () => {
  ws.outgoing.steering = new Steering(() => undefined);
  const remove = ws.outgoing.steering.add('thread_1', () => 'task_1');
  ws.outgoing.send(target, 'Shorter');
  expect(ws.outbox.items.at(-1)).toMatchObject({ content: 'Shorter', steer: 'task_1' });
  ws.outgoing.send({ ...target, thread_id: 'thread_2' }, 'Elsewhere');
  expect(ws.outbox.items.at(-1)!.steer).toBeUndefined();
  remove();
  ws.outgoing.send(target, 'Later');
  expect(ws.outbox.items.at(-1)!.steer).toBeUndefined();
});
test.each(['task_ended', 'too_many_steers', 'task_not_found'])(
  'a message whose reply answers %s is posted as usual, and the person is told',
  async (code) => {
    const told: string[] = [];
    ws.outgoing.steering = new Steering((text) => told.push(text));
    ws.outgoing.steering.add('thread_1', () => 'task_1');
    const reply = vi.spyOn(ws.api, 'reply');
    reply.mockRejectedValueOnce(new ApiError(409, { error: { code, message: 'No.', param: 'steer' } }, ''));
    reply.mockResolvedValueOnce({
      message: { ...message({ content: 'Shorter' }), attachments: [] },
      tasks: [],
    });
    ws.outgoing.send(target, 'Shorter');
    ws.reconnect();
    await vi.waitFor(() => expect(reply).toHaveBeenCalledTimes(2));
    const bodies = reply.mock.calls.map(([, body]) => body as { steer?: string; client_id: string });
    expect(bodies.map((body) => body.steer)).toEqual(['task_1', undefined]);
    expect(bodies[0]!.client_id).toBe(bodies[1]!.client_id);
    await vi.waitFor(() => expect(ws.outbox.items).toEqual([]));
    expect(told).toEqual([expect.stringContaining('“Shorter”')]);
  },
);
test('another refusal fails the message, which keeps its task', async () => {
  ws.outgoing.steering = new Steering(() => undefined);
  ws.outgoing.steering.add('thread_1', () => 'task_1');
  const reply = vi.spyOn(ws.api, 'reply');
  reply.mockRejectedValue(new ApiError(409, { error: { code: 'thread_archived', message: 'No.' } }, ''));
  ws.outgoing.send(target, 'Shorter');
  ws.reconnect();
  await vi.waitFor(() => expect(ws.outbox.items[0]!.status).toBe('failed'));
  expect(reply).toHaveBeenCalledTimes(1);
  expect(ws.outbox.items[0]!.steer).toBe('task_1');
});
