// @vitest-environment happy-dom
import { flushSync } from 'svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Scene } from '../test/backend';
import { AT, task } from '../test/make';
import { action, announced, approved, grant, need, waiting } from '../test/make-actions';
import { actionsOf, type Actions } from './actions.svelte';

let scene: Scene;
let actions: Actions;
const settled = () =>
  vi.waitFor(() => {
    flushSync();
    expect(actions.waiting).not.toBeNull();
  });
const event = (type: 'action.requested' | 'action.updated', a = action()) =>
  scene.event(type, { action: announced(a) });
const calls = (path: string) => scene.backend.calls.filter((call) => call.endsWith(path)).length;

beforeEach(async () => {
  scene = new Scene();
  await scene.ws.start();
  actions = actionsOf(scene.ws, { announce: (text) => void scene.said.push(text) });
  await settled();
});
afterEach(() => scene.ws.stop());

/** Stores an action on the server that waits for Mia's decision. */
const ask = (a = action()) => {
  scene.backend.actions.set(a.id, a);
  scene.backend.waiting = waiting({ actions: [a] });
};

test('a new question is loaded with its arguments and announced', async () => {
  ask();
  event('action.requested');
  await vi.waitFor(() => expect(actions.mine).toHaveLength(1));
  expect(actions.mine[0]!.arguments).toEqual({ summary: 'Offline sync' });
  expect(actions.isMine(actions.mine[0]!)).toBe(true);
  expect(scene.said).toContain('Vibe needs your approval');
});
test('everything new is announced: when the page opens, several questions, and unknown outcomes', async () => {
  const other = new Scene();
  await other.ws.start();
  other.backend.waiting = waiting({ actions: [action()] });
  const said: string[] = [];
  const opened = actionsOf(other.ws, { announce: (text) => void said.push(text) });
  await vi.waitFor(() => {
    flushSync();
    expect(opened.waiting).not.toBeNull();
  });
  expect(said).toEqual(['Vibe needs your approval']);
  other.backend.waiting = waiting({ actions: [action(), action({ id: 'act_2', state: 'unknown' })] });
  await opened.refresh();
  expect(said.at(-1)).toBe('Vibe needs to know what happened');
  other.backend.waiting = waiting({ actions: [action({ id: 'act_3' }), action({ id: 'act_4' })] });
  await opened.refresh();
  expect(said.slice(2)).toEqual(['2 actions are waiting for you']);
  other.ws.stop();
});
test('a question to others is neither loaded, counted, nor announced', async () => {
  const before = calls('/v1/waiting');
  event('action.requested', action({ requested_by: 'user_bo' }));
  expect(calls('/v1/waiting')).toBe(before);
  const needs = [need({ who: 'any_member' })];
  event('action.requested', action({ id: 'act_2', requested_by: 'user_bo', needs }));
  await vi.waitFor(() => expect(calls('/v1/waiting')).toBe(before + 1));
  expect(actions.mine).toEqual([]);
  expect(scene.said).not.toContain('Vibe needs your approval');
});
test('events keep the texts that are known', async () => {
  ask();
  event('action.requested');
  await vi.waitFor(() => expect(actions.mine).toHaveLength(1));
  scene.backend.waiting = waiting();
  event('action.updated', approved(action(), 'user_bo'));
  const now = actions.map.get('act_1')!;
  expect(now.state).toBe('approved');
  expect(now.arguments).toEqual({ summary: 'Offline sync' });
  expect(actions.mine).toEqual([]);
});
test('a late response does not undo a decision', async () => {
  ask();
  await actions.refresh();
  let open = () => undefined as void;
  scene.backend.gate = new Promise((done) => (open = done));
  const late = actions.refresh();
  event('action.updated', approved(action(), 'user_bo'));
  open();
  scene.backend.gate = null;
  await late;
  expect(actions.map.get('act_1')!.state).toBe('approved');
  expect(actions.mine).toEqual([]);
});
test('an approval sends the arguments that were shown, and removes the card', async () => {
  ask();
  await actions.refresh();
  const [a] = actions.mine;
  scene.backend.actions.set('act_1', approved(action()));
  scene.backend.waiting = waiting({ grants: [grant()] });
  await actions.approve(a!, 'hour');
  expect(scene.backend.calls).toContain('POST /v1/actions/act_1/approve');
  expect(scene.backend.bodies).toContainEqual({ arguments_hash: 'a1', for: 'hour' });
  expect(actions.mine).toEqual([]);
  await vi.waitFor(() => expect(actions.waiting!.grants).toHaveLength(1));
});
test('after one of two approvals, the other is still missing', async () => {
  const both = action({ needs: [need(), need({ who: 'admin' })] });
  ask(both);
  await actions.refresh();
  const half = action({ needs: [need({ by: 'user_me', at: AT }), need({ who: 'admin' })] });
  scene.backend.actions.set('act_1', half);
  scene.backend.waiting = waiting();
  await actions.approve(actions.mine[0]!);
  expect(actions.mine).toEqual([]);
  expect(actions.map.get('act_1')).toEqual(half);
});
test('a failed decision changes nothing, and shows who was faster', async () => {
  ask();
  await actions.refresh();
  const [a] = actions.mine;
  scene.backend.refuse = /approve$/;
  await expect(actions.approve(a!)).rejects.toThrow('No.');
  expect(actions.map.get('act_1')).toEqual(a);
  expect(actions.mine).toEqual([a]);
  scene.backend.actions.set('act_1', approved(action(), 'user_bo'));
  await expect(actions.approve(a!)).rejects.toThrow('No.');
  expect(actions.map.get('act_1')!.needs[0]!.by).toBe('user_bo');
  expect(actions.mine).toEqual([]);
});
test('the chip says what runs and who is missing', async () => {
  const running = task({ status: 'running' });
  const parked = task({ wait_reason: 'approval', round: 1 });
  const search = action({
    name: 'search',
    function: 'search_messages',
    title: 'Search messages',
    tool: null,
    state: 'approved',
  });
  expect(actions.chip(running)).toBeNull();
  event('action.requested', search);
  expect(actions.chip(running)).toBe('Searching messages');
  event('action.updated', { ...search, state: 'done' });
  expect(actions.chip(running)).toBeNull();
  event('action.requested', action({ id: 'act_2', call: 2, requested_by: 'user_bo' }));
  expect(actions.chip(parked)).toBe('Waiting for Bo');
  ask(action({ id: 'act_3', call: 3 }));
  event('action.requested', action({ id: 'act_3', call: 3 }));
  await vi.waitFor(() => expect(actions.chip(parked)).toBe('Waiting for your approval'));
  expect(actions.chip(task({ status: 'completed' }))).toBeNull();
});
test('actions of a task are loaded, in the order of the calls', async () => {
  scene.backend.actions.set('act_2', action({ id: 'act_2', round: 2 }));
  scene.backend.actions.set('act_1', action({ requested_by: 'user_bo' }));
  actions.want('task_1');
  await vi.waitFor(() => expect(actions.ofTask('task_1').map((a) => a.id)).toEqual(['act_1', 'act_2']));
});
test('one request loads what waits in all parked tasks', async () => {
  for (const n of [1, 2, 3]) {
    const a = action({ id: `act_${n}`, task_id: `task_${n}`, requested_by: 'user_bo' });
    scene.backend.actions.set(a.id, a);
    scene.event('task.status_changed', { task: task({ id: a.task_id, wait_reason: 'approval', round: 1 }) });
  }
  const before = calls('/v1/actions');
  scene.ws.outcomes.starts++;
  await vi.waitFor(() => {
    flushSync();
    expect(actions.ofTask('task_3')).toHaveLength(1);
  });
  expect(actions.chip(task({ id: 'task_2', wait_reason: 'approval', round: 1 }))).toBe('Waiting for Bo');
  expect(calls('/v1/actions')).toBe(before + 1);
});
test('after a snapshot, everything is loaded again', async () => {
  const before = calls('/v1/waiting');
  ask();
  scene.ws.outcomes.starts++;
  await vi.waitFor(() => {
    flushSync();
    expect(actions.mine).toHaveLength(1);
  });
  expect(calls('/v1/waiting')).toBeGreaterThan(before);
});
test('a revoked permission is gone', async () => {
  scene.backend.waiting = waiting({ grants: [grant()] });
  await actions.refresh();
  await actions.revoke(actions.waiting!.grants[0]!);
  expect(scene.backend.calls).toContain('DELETE /v1/grants/grant_1');
  expect(actions.waiting!.grants).toEqual([]);
});
