import { afterEach, beforeEach, expect, test } from 'vitest';
import { Scene } from '../test/backend';
import { fork, thread } from '../test/make';
import { targetOf, unknownOf } from './places';

let scene: Scene;
beforeEach(async () => {
  scene = new Scene();
  await scene.ws.start();
});
afterEach(() => scene.ws.stop());

test('a draft names its conversation, and opens it', () => {
  const { ws } = scene;
  ws.learnThread(thread({ id: 'thread_9', title: 'Offline sync' }));
  ws.forks.put(fork({ id: 'fork_9', title: 'Conflict log', thread_id: 'thread_9' }));
  expect(targetOf('c:chan_1', ws)).toEqual({
    title: '#general',
    where: 'New thread',
    path: `/${ws.slug}/c/general`,
  });
  expect(targetOf('t:thread_9', ws)).toEqual({
    title: 'Offline sync',
    where: 'Reply in #general',
    path: `/${ws.slug}/c/general/t/thread_9`,
  });
  expect(targetOf('d:fork_9', ws)).toEqual({
    title: 'Conflict log',
    where: 'Deep dive in #general',
    path: `/${ws.slug}/c/general/t/thread_9?panel=dive:fork_9`,
  });
});
test('unknown conversations are loaded, and have no link until then', () => {
  const { ws } = scene;
  expect(unknownOf('t:thread_x', ws)).toEqual({ thread: 'thread_x' });
  expect(unknownOf('d:fork_x', ws)).toEqual({ fork: 'fork_x' });
  expect(unknownOf('c:chan_1', ws)).toBeNull();
  for (const place of ['t:thread_x', 'd:fork_x', 'c:chan_x'])
    expect(targetOf(place, ws)).toMatchObject({ where: '', path: null });
});
