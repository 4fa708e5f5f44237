// Levels and marks of deep dives, and the level of a channel.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, button, message, PHONE, WIDE } from './lib/browser.mjs';
import { forkPanel, main, pictures, side } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam({ ada: { keep: 'on' }, bo: { keep: 'on' } });
const { channelId } = await known(ada);
const general = channelId('general');
const post = (p, path, data) => api(p, 'POST', path, data);
const { thread, message: root } = await post(ada, `channels/${general}/threads`, { content: 'Which hall?' });
const { fork } = await post(ada, `threads/${thread.id}/forks`, {
  message_id: root.id,
  title: 'Which hall?',
  agent_id: null,
});
const path = `/northwind/c/general/t/${thread.id}?panel=dive:${fork.id}`;
const mine = (p) => api(p, 'GET', `forks/${fork.id}`);
const say = (p, content) => post(p, `forks/${fork.id}/messages`, { content });
const until = async (check, what) => {
  for (const end = Date.now() + 10_000; !(await check());) assert.ok(Date.now() < end, what ?? String(check));
};

test('the bell of a dive says why, follows, and unfollows', async () => {
  await ada.page.goto(path);
  const bell = button(forkPanel(ada), 'Unfollow this dive');
  await bell.waitFor();
  assert.equal(
    await bell.getAttribute('title'),
    'Unfollow this dive. You follow this dive because you started it.',
  );
  await bo.page.goto(path);
  await button(forkPanel(bo), 'Follow this dive').click();
  await button(forkPanel(bo), 'Unfollow this dive').waitFor();
  assert.deepEqual((await mine(bo)).follow, { level: 'all', cause: 'manual' });
  await button(forkPanel(bo), 'Unfollow this dive').click();
  await button(forkPanel(bo), 'Follow this dive').waitFor();
  await until(async () => (await mine(bo)).follow.level === 'mentions');
});

test('messages in a dive are unread for followers until they are on screen', async () => {
  await ada.page.goto('/northwind/c/random');
  await side(ada)
    .getByRole('link', { name: /^Which hall\? deep dive/ })
    .waitFor();
  await say(bo, 'The one by the river.');
  await side(ada).getByRole('link', { name: 'Which hall? deep dive 1 unread' }).click();
  await forkPanel(ada).getByRole('separator', { name: 'New messages' }).waitFor();
  await message(ada.page, 'The one by the river.').waitFor();
  await until(async () => (await mine(ada)).unread_count === 0, 'the message is read');
  await side(ada)
    .getByRole('link', { name: /^Which hall\? deep dive$/ })
    .waitFor();
  assert.equal((await mine(bo)).unread_count, 0, 'Bo does not follow it');
});

test('a dive is muted and unmuted from its menu', async () => {
  const pick = async (name) => {
    await button(forkPanel(ada), 'Dive menu').click();
    await ada.page.getByRole('menuitem', { name, exact: true }).click();
  };
  await pick('Mute');
  await button(forkPanel(ada), 'Unmute this dive').waitFor();
  await until(async () => (await mine(ada)).follow.level === 'none');
  await accessible(ada.page, 'a muted dive');
  for (const [name, viewport] of [
    ['1440', WIDE],
    ['900', { width: 900, height: 844 }],
    ['390', PHONE],
  ]) {
    await ada.page.setViewportSize(viewport);
    await pictures(ada, `dive-muted-${name}`);
  }
  await ada.page.setViewportSize(WIDE);
  await pick('Unmute');
  await button(forkPanel(ada), 'Follow this dive').waitFor();
});

test('the level of a channel is set in its menu; Nothing shows no count', async () => {
  await ada.page.goto('/northwind/c/general');
  const pick = async (name) => {
    await button(main(ada), 'Channel menu').click();
    await ada.page.getByRole('menuitemradio', { name, exact: true }).click();
  };
  const level = async () => (await api(ada, 'GET', 'snapshot')).channels.find((c) => c.id === general).level;
  await button(main(ada), 'Channel menu').click();
  const chosen = ada.page.getByRole('menuitemradio', { checked: true });
  await chosen.waitFor();
  assert.equal(await chosen.innerText(), 'Mentions');
  await accessible(ada.page, 'the menu of a channel');
  await pictures(ada, 'channel-menu');
  await ada.page.keyboard.press('Escape');
  await pick('Every new thread');
  await until(async () => (await level()) === 'all');
  await pick('Nothing');
  await until(async () => (await level()) === 'none');
  await ada.page.goto('/northwind/c/random');
  await post(bo, `channels/${general}/threads`, { content: 'Lunch is served' });
  await post(bo, `channels/${channelId('random')}/threads`, { content: 'Here, too' });
  await main(ada).getByRole('link', { name: 'Here, too' }).waitFor();
  await side(ada)
    .getByRole('link', { name: /^general$/ })
    .waitFor();
});

test('no page logged an error', () => {
  assert.deepEqual([ada.errors, bo.errors], [[], []]);
});
