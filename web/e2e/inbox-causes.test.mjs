// The inbox on screen: how soon each cause becomes a row, beside the event of the same cause.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SAID } from './lib/model.mjs';
import { main } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

/** Maximum time from the event to the row: of half of the causes, and of each, because other tests run beside this one. */
const HALF_MS_MAX = 1000;
const EACH_MS_MAX = 2000;

const { ada, bo } = await startTeam({ model: true, ada: { layout: 'split' } });
const { channelId, member } = await known(bo);
const general = channelId('general');
const { handle, user_id } = member('Ada Lindholm');
const post = (p, path, content) => api(p, 'POST', path, { content, client_id: crypto.randomUUID() });
const start = async (p, content) => {
  const { thread, message } = await post(p, `channels/${general}/threads`, content);
  return { thread: thread.id, root: message.id };
};
const say = (p, thread, content) => post(p, `threads/${thread}/messages`, content);
/** A fork of a new thread of Ada, in which Bo has written. */
const startFork = async (title) => {
  const { thread, root } = await start(ada, title);
  const { fork } = await api(bo, 'POST', `threads/${thread}/forks`, { message_id: root, agent_id: null });
  await post(bo, `forks/${fork.id}/messages`, SAID);
  return fork.id;
};

const inbox = main(ada).getByRole('region', { name: 'Inbox', exact: true });
/** Texts of the received frames, with their times. */
const frames = [];
const times = [];

const rowOf = (chip, title) => inbox.getByRole('link', { name: new RegExp(`^${chip}, .*${title}`) });
/** `cause` returns parts of the frame with its event. */
async function measure(name, chip, title, cause, row = rowOf(chip, title)) {
  assert.equal(await row.count(), 0, name);
  const parts = await cause();
  await row.waitFor();
  const shown = Date.now();
  const event = frames.find(({ text }) => parts.every((part) => text.includes(part)));
  assert.ok(event, `${name} has no event`);
  times.push({ name, ms: Math.max(0, shown - event.at) });
}
const isPosted = ({ message }) => ['message.created', message.id];
const hasEnded = (task, status) => [task.id, `"status":"${status}"`];

test('the inbox is on screen', async () => {
  ada.page.on('websocket', (socket) =>
    socket.on('framereceived', ({ payload }) => frames.push({ at: Date.now(), text: String(payload) })),
  );
  await ada.page.goto('/northwind/inbox');
  await inbox.getByText('You’re caught up.').waitFor();
});

test('messages are rows', async () => {
  const { thread } = await start(bo, 'Of a mention');
  await measure('mention', 'Asked you', 'Of a mention', async () =>
    isPosted(await say(bo, thread, `@${handle} can you check this?`)),
  );
  await measure('mention of the channel', '@channel', 'lunch at one', async () =>
    isPosted(await post(bo, `channels/${general}/threads`, '@channel lunch at one')),
  );
  const direct = await api(bo, 'POST', 'direct', { member_ids: [user_id] });
  await measure('direct message', 'Message', 'Do you have ten minutes', async () =>
    isPosted(await post(bo, `channels/${direct.id}/threads`, 'Do you have ten minutes?')),
  );
  const own = await start(ada, 'Of a reply');
  await measure('reply', 'Reply', 'Of a reply', async () => isPosted(await say(bo, own.thread, 'By key')));
  await api(ada, 'PUT', `channels/${general}/level`, { level: 'all' });
  await measure('new thread', 'New thread', 'News of the day', async () =>
    isPosted(await post(bo, `channels/${general}/threads`, 'News of the day')),
  );
  await api(ada, 'PUT', `channels/${general}/level`, { level: 'mentions' });
});

test('results and action items are rows', async () => {
  const publish = async (fork, resolution) =>
    isPosted(await api(bo, 'POST', `forks/${fork}/publish`, { resolution }));
  const resolved = await startFork('Of a result');
  await measure('result', 'Result', 'Of a result', () => publish(resolved, { headline: 'Monday' }));
  const assigned = await startFork('Of an action item');
  const action_items = [{ text: 'Book the room', owner_id: user_id }];
  await measure('action item', 'Action item', 'Book the room', () =>
    publish(assigned, { headline: 'Monday at nine', action_items }),
  );
});

test('work of agents is a row', async () => {
  const ask = async (content) => {
    const { thread } = await start(ada, `About ${content}`);
    return (await say(ada, thread, `@vibe ${content}`)).tasks[0];
  };
  await measure('answer', 'Answer', 'About the day', async () => hasEnded(await ask('the day'), 'completed'));
  await measure('failure', 'Failed', 'About what to refuse', async () =>
    hasEnded(await ask('what to refuse'), 'failed'),
  );
  const fork = await startFork('Of a draft');
  await measure('draft', 'Draft ready', '', async () => {
    const { task } = await api(ada, 'POST', `forks/${fork}/resolve`, {});
    return hasEnded(task, 'completed');
  });
});

test('runs that wait for a person are rows', async () => {
  const begin = async (name, step) => {
    const { id } = await api(ada, 'POST', 'workflows', { name, agents: [], steps: [step] });
    return (await api(ada, 'POST', `workflows/${id}/runs`, { channel_id: general })).run.id;
  };
  const dive = { id: 'think', kind: 'fork', goal: 'Find a day.' };
  await measure('deep dive of a run', 'Resolve', 'fair, step 1: resolve this deep dive', async () => [
    'run.updated',
    await begin('fair', dive),
    '"status":"waiting"',
  ]);
  const ask = { id: 'ask', kind: 'approval', title: 'Release', text: 'Go on?', who: 'requester' };
  const card = ada.page.getByRole('article', { name: 'Approval: Release', exact: true });
  const isAsked = async () => {
    await begin('release', ask);
    return ['action.requested', 'Release'];
  };
  await measure('approval', '', '', isAsked, card);
});

test('each cause is a row soon after its event', () => {
  for (const { name, ms } of times) console.log(`${name}: ${ms} ms after its event`);
  assert.equal(times.length, 12);
  const sorted = times.map(({ ms }) => ms).sort((a, b) => a - b);
  assert.ok(sorted[times.length / 2] <= HALF_MS_MAX, JSON.stringify(times));
  assert.ok(sorted.at(-1) <= EACH_MS_MAX, JSON.stringify(times));
  assert.deepEqual([ada.errors, bo.errors], [[], []]);
});
