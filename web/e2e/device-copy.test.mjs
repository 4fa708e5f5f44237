// The copy of a workspace on this device: reading and writing without a network, one copy of each message, and its end.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { accessible, box, button, message, person, reply, startThread } from './lib/browser.mjs';
import { crash, databases, stored, until } from './lib/copy.mjs';
import { main } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { server, browser, ada, bo } = await startTeam({
  ada: { serviceWorkers: 'allow', keep: 'on' },
  bo: { keep: 'on' },
});
const texts = async () => {
  const { data } = await api(bo, 'GET', `threads/${thread.split('/').at(-1)}/messages`);
  return data.map((m) => m.content);
};
/** Opens a window in place of the one that was closed. */
const newPage = async () => {
  ada.page = await ada.context.newPage();
  ada.page.setDefaultTimeout(60_000);
};
let thread;

before(async () => {
  await ada.page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
  await startThread(ada.page, 'Before the flight');
  await ada.page.waitForURL('**/t/**');
  thread = new URL(ada.page.url()).pathname;
  await until(async () => (await stored(ada.page))?.texts.includes('Before the flight'));
});

test('the copy follows messages of a conversation that is closed', async () => {
  await ada.page.goto('/northwind/c/general');
  await box(ada.page, 'Start a thread in #general').waitFor();
  await api(bo, 'POST', `threads/${thread.split('/').at(-1)}/messages`, { content: 'From the ground' });
  await until(async () => (await stored(ada.page)).texts.includes('From the ground'));
  const { channelId, member } = await known(bo);
  const content = `@${member('Ada Lindholm').handle} safe travels`;
  await api(bo, 'POST', `channels/${channelId('general')}/threads`, { content });
  await until(async () => (await stored(ada.page)).items.some((text) => text.includes('safe travels')));
});

test('in airplane mode, after the browser was closed, people can read and write', async () => {
  await ada.page.goto(thread);
  await message(ada.page, 'From the ground').waitFor();
  await until(async () => (await stored(ada.page)).texts.includes('From the ground'));
  await ada.context.setOffline(true);
  await ada.page.getByText('You are offline').waitFor();
  await reply(ada.page, 'Above the clouds');
  await ada.page.getByText('Waiting to send').waitFor();
  await crash(ada); // without a goodbye
  await newPage();
  await ada.page.goto(thread);
  await message(ada.page, 'From the ground').waitFor();
  await ada.page.getByText(/Last updated \d\d:\d\d/).waitFor();
  await message(ada.page, 'Above the clouds').waitFor();
  assert.equal(await message(ada.page, 'Before the flight').count(), 1);
  await reply(ada.page, 'Still above the clouds');
  await ada.page.getByText('Waiting to send').nth(1).waitFor();
  await accessible(ada.page, 'a thread of the copy');
});

test('lists are stored, and what is not stored says so', async () => {
  await ada.page.goto('/northwind/c/general');
  await main(ada).getByText('Before the flight').first().waitFor();
  await ada.page.goto('/northwind/inbox');
  await main(ada).locator('[data-item]').filter({ hasText: 'safe travels' }).waitFor();
  await ada.page.goto('/northwind/actions');
  await ada.page.getByText('This is not stored on this device.').first().waitFor();
});

test('without a network, following a thread is kept for later', async () => {
  await ada.page.goto(thread);
  await message(ada.page, 'From the ground').waitFor();
  const add = button(ada.page, 'New channel');
  await until(async () => (await add.getAttribute('aria-disabled')) === 'true');
  assert.equal(await add.getAttribute('title'), 'You’re offline.');
  await button(ada.page, 'Unfollow this thread').click();
  await button(ada.page, 'Follow this thread').waitFor();
  await ada.page.reload();
  await button(ada.page, 'Follow this thread').waitFor();
});

test('back online, each message is posted once', async () => {
  await ada.context.setOffline(false);
  await ada.page.locator('article[data-seq]').filter({ hasText: 'Still above the clouds' }).waitFor();
  assert.deepEqual(await texts(), [
    'Before the flight',
    'From the ground',
    'Above the clouds',
    'Still above the clouds',
  ]);
  assert.equal(await message(ada.page, 'Still above the clouds').count(), 1);
  assert.equal(await ada.page.getByText(/Last updated/).count(), 0);
  assert.equal(await button(ada.page, 'New channel').getAttribute('aria-disabled'), null);
  const level = async () => (await api(ada, 'GET', `threads/${thread.split('/').at(-1)}`)).follow.level;
  await until(async () => (await level()) === 'mentions');
});

test('a start shows the copy, and then what happened meanwhile', async () => {
  await until(async () => (await stored(ada.page)).texts.includes('Still above the clouds'));
  await ada.page.close();
  await api(bo, 'POST', `threads/${thread.split('/').at(-1)}/messages`, { content: 'Welcome back' });
  await newPage();
  const snapshots = [];
  ada.page.on('request', (r) => {
    if (/\/v1\/threads\/[^/]+\/messages/.test(r.url()) && r.method() === 'GET') snapshots.push(r.url());
  });
  await ada.page.goto(thread);
  await message(ada.page, 'Welcome back').waitFor();
  assert.equal(await message(ada.page, 'Welcome back').count(), 1);
  assert.deepEqual(snapshots, [], 'the messages came from the copy and from events');
});

test('the switch erases the copy, and makes a new one', async () => {
  await ada.page.goto('/northwind/settings/profile');
  const keep = ada.page.getByRole('switch', { name: 'Keep messages on this device' });
  await keep.uncheck();
  await until(async () => (await databases(ada.page)).length === 0);
  await ada.page.reload();
  await keep.waitFor();
  assert.equal(await keep.isChecked(), false);
  await keep.check();
  await ada.page.goto(thread);
  await message(ada.page, 'Welcome back').waitFor();
  await until(async () => (await stored(ada.page))?.texts.includes('Welcome back'));
});

test('a removed member has no copy any more', async () => {
  const { member } = await known(ada);
  const extra = await person(browser, server.base, { keep: 'on' });
  await extra.context.addCookies((await bo.context.storageState()).cookies);
  await extra.page.goto(thread);
  await message(extra.page, 'Welcome back').waitFor();
  await until(async () => (await databases(extra.page)).length === 1);
  await api(ada, 'DELETE', `members/${member('Bo Chen').user_id}`);
  await until(async () => (await databases(extra.page)).length === 0);
  await extra.close();
});

test('signing out erases the copy', async () => {
  assert.equal((await databases(ada.page)).length, 1);
  await ada.page.goto('/northwind/settings/profile');
  await button(ada.page, 'Sign out').last().click();
  await button(ada.page, 'Sign in').waitFor();
  await until(async () => (await databases(ada.page)).length === 0);
  assert.deepEqual(
    await ada.page.evaluate(() => Object.keys(localStorage).filter((k) => k.startsWith('openvibe.kept'))),
    [],
  );
});

test('no page logged an error', () => assert.deepEqual(ada.errors, []));
