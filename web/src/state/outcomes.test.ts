import { beforeEach, expect, test } from 'vitest';
import { Api } from '../api/api';
import type { OutcomeEvent } from '../api/events';
import type { ActionItem, Fork, Resolution } from '../api/types';
import { AT, message } from '../test/make';
import { action, fork, result } from '../test/make-results';
import { itemsOf, Outcomes } from './outcomes.svelte';

const posted = (x: Partial<Resolution> = {}) =>
  result({ status: 'published', message_id: 'msg_card', published_at: AT, ...x });
let mine: ActionItem[];
let versions: Resolution[];
let refuse = false;
let calls: string[];
let listed: Fork[];
let o: Outcomes;

const fetch = async (request: Request): Promise<Response> => {
  const { pathname, search } = new URL(request.url);
  calls.push(`${request.method} ${pathname}`);
  if (refuse) return Response.json({ error: { code: 'x', message: 'No.' } }, { status: 403 });
  if (request.method === 'PATCH') {
    const id = pathname.split('/').at(-1)!;
    const change = (await request.json()) as Partial<ActionItem>;
    return Response.json({ ...o.items.get(id), ...change, done_by: change.done ? 'user_me' : null });
  }
  const data = pathname.endsWith('/resolutions') ? versions : search.includes('owner=me') ? mine : [];
  return Response.json({ data, has_more: false });
};
const receive = (type: OutcomeEvent['type'], data: object) =>
  o.apply({ type, seq: 1, ts: AT, data } as OutcomeEvent);

beforeEach(() => {
  refuse = false;
  calls = [];
  mine = itemsOf(posted({ action_items: [action({ owner_id: 'user_me' })] }));
  versions = [posted()];
  listed = [];
  o = new Outcomes({
    api: new Api({ fetch, base: 'http://x' }),
    myId: 'user_me',
    forks: { inThread: () => listed },
    forkActions: {
      list: () => {
        calls.push('list');
        listed = [fork({ resolution_id: 'res_1' }), fork({ id: 'fork_x', message_id: 'msg_x' })];
        return Promise.resolve();
      },
    },
  });
});

test('my open items are counted at the start, then updated by events', async () => {
  await o.start();
  expect(o.mineOpen).toBe(1);
  receive('action_item.updated', { action_item: { ...mine[0]!, done: true } });
  expect(o.mineOpen).toBe(0);
  const r = posted({
    id: 'res_2',
    fork_id: 'fork_2',
    action_items: [action({ id: 'item_2', owner_id: 'user_me' })],
  });
  receive('resolution.published', { resolution: r });
  expect(o.mineOpen).toBe(1);
});
test('a completed item is shown immediately and reverted if rejected', async () => {
  await o.start();
  const done = o.change('item_1', { done: true });
  expect(o.items.get('item_1')?.done).toBe(true);
  await done;
  expect(o.items.get('item_1')?.done_by).toBe('user_me');
  refuse = true;
  await expect(o.change('item_1', { done: false })).rejects.toThrow('No.');
  expect(o.items.get('item_1')?.done).toBe(true);
});
test('a new version drops items, keeps the remaining ones, and leaves the old card unchanged', () => {
  const v1 = posted({ action_items: [action(), action({ id: 'item_2', text: 'Old' })] });
  receive('resolution.published', { resolution: v1 });
  receive('resolution.updated', { resolution: { ...v1, status: 'superseded' } });
  const v2 = posted({ id: 'res_2', version: 2, action_items: [action({ done: true })] });
  receive('resolution.published', { resolution: v2 });
  expect([...o.items.keys()]).toEqual(['item_1']);
  expect(o.now(o.results.get('res_2')!, v2.action_items[0]!).done).toBe(true);
  expect(o.now(o.results.get('res_1')!, v1.action_items[0]!).done).toBe(false);
  expect(o.newest('fork_1')?.id).toBe('res_2');
});
test('a card loads its result and its dive, and retries after a failure', async () => {
  const metadata = { resolution_id: 'res_1', fork_id: 'fork_1' };
  const card = message({ id: 'msg_card', parent_id: 'msg_1', metadata });
  refuse = true;
  o.want(card);
  await expect.poll(() => o.failed.has('msg_card')).toBe(true);
  refuse = false;
  o.want(card);
  o.want(card);
  await expect.poll(() => o.of('fork_1').length).toBe(1);
  o.want(card);
  const asked = 'GET /v1/forks/fork_1/resolutions';
  expect(calls).toEqual(['list', asked, asked]);
});
test('a slow response does not revert an event', () => {
  receive('resolution.updated', { resolution: posted({ status: 'superseded' }) });
  o.learn(posted());
  expect(o.results.get('res_1')?.status).toBe('superseded');
  receive('action_item.updated', { action_item: { ...mine[0]!, done: true } });
  o.learnItems(mine);
  expect(o.items.get('item_1')?.done).toBe(true);
});
test('drafts are not published results', () => {
  receive('resolution.drafted', { resolution: result() });
  expect(o.results.size).toBe(0);
});
