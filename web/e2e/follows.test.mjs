// Following and muting threads, forks in the sidebar, and the Results filter.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { accessible, button, message, startThread } from './lib/browser.mjs';
import { forkPanel, side, threadId, threadList, threadRow } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam();
const channel = (p, name) => side(p).getByRole('link', { name: new RegExp(`^${name}`) });
const home = (p) => channel(p, 'general').click();
const forks = (p) => side(p).getByRole('link', { name: /^Which .* deep dive$/ });
let scope;
let general;
const call = (p, ...request) => api(p, ...request, undefined, scope);
const post = (p, path, data) => api(p, 'POST', path, data, scope);
const say = (p, thread, content) => post(p, `threads/${thread}/messages`, { content });
const level = async (p, thread) => (await call(p, 'GET', `threads/${thread}`)).follow.level;
/** Clicks, and waits until the server has stored the level. */
const setLevel = async (p, click) => {
  const stored = p.page.waitForResponse((r) => /\/follow$/.test(r.url()));
  await click();
  assert.ok((await stored).ok());
};
const fromMenu = (p, name) =>
  setLevel(p, async () => {
    await button(p.page, 'Thread menu').click();
    await p.page.getByRole('menuitem', { name, exact: true }).click();
  });

before(async () => {
  const { workspaces } = await api(ada, 'GET', 'auth/me');
  scope = { 'x-workspace-id': workspaces[0].id };
  general = (await call(ada, 'GET', 'snapshot')).channels.find((c) => c.name === 'general').id;
});

test('the follow button follows, unfollows, and unmutes a thread', async () => {
  await startThread(ada.page, 'Follow me');
  const thread = threadId(ada);
  await button(ada.page, 'Unfollow this thread').waitFor(); // its author follows it automatically
  await threadRow(bo, 'Follow me').click();
  await setLevel(bo, () => button(bo.page, 'Follow this thread').click());
  await button(bo.page, 'Unfollow this thread').waitFor();
  await bo.page.reload();
  await setLevel(bo, () => button(bo.page, 'Unfollow this thread').click());
  await button(bo.page, 'Follow this thread').waitFor();
  assert.equal(await level(bo, thread), 'mentions');
  await fromMenu(bo, 'Mute');
  await button(bo.page, 'Unmute this thread').waitFor();
  assert.equal(await level(bo, thread), 'none');
  assert.equal(await level(ada, thread), 'all', 'only for the user who muted it');
  await setLevel(bo, () => button(bo.page, 'Unmute this thread').click());
  await button(bo.page, 'Follow this thread').waitFor();
  await accessible(bo.page, 'a thread with the follow button');
});

test('a muted thread is not unread for the user who muted it; for others it is; mentions always are', async () => {
  await home(ada);
  await startThread(ada.page, 'Lunch for everybody');
  const thread = threadId(ada);
  await home(bo);
  await threadRow(bo, 'Lunch for everybody').click();
  await message(bo.page, 'Lunch for everybody').waitFor();
  await fromMenu(bo, 'Mute');
  const { thread: other } = await post(ada, `channels/${general}/threads`, { content: 'Loud thread' });
  await channel(ada, 'random').click();
  await channel(bo, 'random').click();
  await say(bo, thread, 'Soup for me');
  await say(ada, thread, 'Bread for me');
  // Once the row shows the newest message, all messages of the muted thread have arrived.
  await home(bo);
  await threadRow(bo, 'Lunch for everybody').getByText('Bread for me').waitFor();
  await threadRow(bo, 'Loud thread').getByText('1 unread message').waitFor();
  assert.equal(
    await threadRow(bo, 'Lunch for everybody')
      .getByText(/unread message/)
      .count(),
    0,
  );
  await button(bo.page, 'Unread').click();
  await threadRow(bo, 'Lunch for everybody').waitFor({ state: 'detached' });
  await threadRow(bo, 'Loud thread').waitFor();
  await button(bo.page, 'All').click();
  await home(ada);
  await threadRow(ada, 'Lunch for everybody').getByText('1 unread message').waitFor();
  // Read the other thread, so that only the muted one could still count.
  await channel(bo, 'random').click();
  await api(bo, 'PUT', `threads/${other.id}/read`, { seq: other.last_seq }, scope);
  await api(bo, 'POST', `channels/${general}/read`, undefined, scope);
  await channel(bo, 'general').getByText('unread').waitFor({ state: 'detached' });
  await say(ada, thread, 'Still only bread');
  await say(ada, thread, '@bo-chen and you?');
  await channel(bo, 'general').getByTitle('1 mention').waitFor();
  await bo.page.reload();
  await channel(bo, 'general').getByTitle('1 mention').waitFor();
  // After a reload, the muted thread has the same counts as it had live.
  const { unread_count, mention_count } = await call(bo, 'GET', `threads/${thread}`);
  assert.deepEqual([unread_count, mention_count], [0, 1]);
  await home(bo);
  await threadRow(bo, 'Lunch for everybody').click();
  await fromMenu(bo, 'Unmute');
  assert.equal(await level(bo, thread), 'mentions');
});

test('the sidebar lists my open deep dives, here and in other channels, until they end', async () => {
  const start = async (p, content) => {
    const { thread, message: root } = await post(ada, `channels/${general}/threads`, { content });
    const made = await post(p, `threads/${thread.id}/forks`, { message_id: root.id, agent_id: null });
    return { thread, fork: made.fork };
  };
  assert.equal(await forks(ada).count(), 0);
  const first = await start(ada, 'Which hall for the fair?');
  await forks(ada).waitFor();
  const bos = await start(bo, 'Which printer?');
  await forks(bo).waitFor();
  await start(ada, 'Which day for the launch?');
  const links = forks(ada);
  await links.nth(1).waitFor();
  assert.deepEqual(await links.locator('.truncate').allInnerTexts(), [
    'Which day for the launch?',
    'Which hall for the fair?',
  ]);
  await channel(ada, 'random').click();
  await ada.page.reload();
  await links.nth(1).waitFor();
  assert.equal(await links.count(), 2, 'those of others are not listed');
  await links.nth(1).click();
  await forkPanel(ada).waitFor();
  await ada.page.waitForURL(new RegExp(`/t/${first.thread.id}\\?panel=dive:${first.fork.id}`));
  assert.equal(await links.nth(1).getAttribute('aria-current'), 'page');
  assert.equal(await links.nth(0).getAttribute('aria-current'), null);
  await accessible(ada.page, 'deep dives in the sidebar');
  await post(ada, `forks/${first.fork.id}/abandon`, {});
  await links.nth(1).waitFor({ state: 'detached' });
  await post(bo, `forks/${bos.fork.id}/abandon`, {});
  await forks(bo).first().waitFor({ state: 'detached' });
});

test('the filter Results shows threads with a result, also those below the loaded part of the list', async () => {
  const decide = async (content, headline) => {
    const { thread, message: root } = await post(ada, `channels/${general}/threads`, { content });
    const { fork } = await post(ada, `threads/${thread.id}/forks`, { message_id: root.id, agent_id: null });
    const said = await post(ada, `forks/${fork.id}/messages`, { content: 'Agreed.' });
    await post(ada, `forks/${fork.id}/publish`, {
      resolution: {
        headline,
        conclusion: '',
        key_points: [{ text: 'Agreed', sources: [said.message.id] }],
        action_items: [],
        open_questions: [],
        deferred_items: [],
      },
    });
    return thread.id;
  };
  const old = await decide('Old question', 'The old answer');
  for (let n = 1; n <= 40; n++)
    await post(ada, `channels/${general}/threads`, { content: `Small talk ${n}` });
  await bo.page.goto('/northwind/c/general');
  await threadRow(bo, 'Small talk 40').waitFor();
  await button(bo.page, 'Results').click();
  await threadRow(bo, 'Old question').getByText('The old answer').waitFor();
  assert.equal(await threadList(bo).getByRole('listitem').count(), 1);
  // A new result appears while the filter is on, and stays when messages follow it.
  const fresh = await decide('New question', 'The new answer');
  await threadRow(bo, 'New question').getByText('The new answer').waitFor();
  await say(ada, fresh, 'Thanks for this');
  await say(ada, old, 'Thanks for that');
  await threadRow(bo, 'Old question').getByText('Thanks for that').waitFor();
  await threadRow(bo, 'New question').getByText('Thanks for this').waitFor();
  assert.equal(await threadList(bo).getByRole('listitem').count(), 2);
  await accessible(bo.page, 'the filter Results');
  await button(bo.page, 'All').click();
  await threadRow(bo, 'Small talk 40').waitFor();
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
