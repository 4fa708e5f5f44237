// Followed conversations: in the sidebar, unread first, and all of them on their page.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, message, PHONE, WIDE } from './lib/browser.mjs';
import { forkPanel, inspect, main, pictures, side, theme } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam();
const { channelId, member } = await known(bo);
const general = channelId('general');
const post = (p, path, data) => api(p, 'POST', path, data);
const start = async (p, content) => (await post(p, `channels/${general}/threads`, { content })).thread;
const say = (p, thread, content) => post(p, `threads/${thread.id}/messages`, { content });
const filter = (p) => side(p).getByRole('combobox', { name: 'Show conversations' });
const titles = (p, name) =>
  side(p)
    .locator('section')
    .filter({ has: p.page.getByRole('heading', { name: 'Conversations' }) })
    .getByRole('link', { name })
    .locator('.truncate')
    .allInnerTexts();
const link = (p, name) => side(p).getByRole('link', { name });
const until = async (check, what) => {
  for (const end = Date.now() + 10_000; !(await check());) assert.ok(Date.now() < end, what ?? String(check));
};
/** True if a part of the sidebar is out of view. */
const isCut = (p) =>
  side(p).evaluate((nav) => [...nav.children].some((el) => el.scrollHeight > el.clientHeight + 1));
let dive;

test('threads that I start, and dives that I open, appear at once; unread ones come first', async () => {
  assert.equal(await side(ada).getByRole('heading', { name: 'Conversations' }).count(), 0);
  const first = await start(ada, 'Hall for the fair');
  await link(ada, 'Hall for the fair').waitFor();
  const second = await start(ada, 'Posters for the fair');
  await link(ada, 'Posters for the fair').waitFor();
  dive = (
    await post(ada, `threads/${second.id}/forks`, { message_id: second.root_message_id, agent_id: null })
  ).fork;
  await until(async () => (await titles(ada, /fair/)).length === 3);
  await ada.page.goto('/northwind/c/random');
  await link(ada, 'Hall for the fair').waitFor();
  await say(bo, first, 'The hall is free on Friday.');
  await until(async () => (await titles(ada, /fair/))[0].startsWith('Hall for the fair'));
  await link(ada, 'Hall for the fair 1 unread').click();
  await message(ada.page, 'The hall is free on Friday.').waitFor();
  assert.equal(await link(ada, /^Hall for the fair/).getAttribute('aria-current'), 'page');
  await link(ada, /^Hall for the fair$/).waitFor();
});

test('the filters show threads, dives, or chats', async () => {
  await filter(ada).selectOption('Dives');
  await until(async () => (await titles(ada, /fair/)).length === 1);
  await link(ada, /^Posters for the fair/).click();
  await forkPanel(ada).waitFor();
  const { channel } = await post(ada, 'direct', { agent_id: (await agents()).vibe }).then((c) => ({
    channel: c,
  }));
  await post(ada, `channels/${channel.id}/threads`, { content: 'Private notes on the fair' });
  await filter(ada).selectOption('Chats');
  await until(async () => (await titles(ada, /fair/)).length === 1);
  await link(ada, 'Private notes on the fair').waitFor();
  await filter(ada).selectOption('All');
  await until(async () => (await titles(ada, /fair/)).length === 4);
});
const agents = async () => {
  const { agents: all } = await api(ada, 'GET', 'snapshot');
  return Object.fromEntries(all.map((a) => [a.name, a.id]));
};

test('4 channels, 2 direct messages, and 6 conversations fit', async () => {
  for (const name of ['design', 'sales']) await post(ada, 'channels', { name });
  await api(ada, 'PATCH', 'auth/me', { checklist: false });
  await post(ada, 'direct', { member_ids: [member('Bo Chen').user_id] });
  for (const n of [1, 2]) await start(ada, `Note ${n} on the fair`);
  await ada.page.goto('/northwind/c/general');
  await until(async () => (await titles(ada, /fair/)).length === 6);
  assert.equal(await isCut(ada), false, 'at 900 px');
  await pictures(ada, 'sidebar-six');
  await accessible(ada.page, 'the sidebar');
  await ada.page.setViewportSize(PHONE);
  await main(ada).getByRole('button', { name: 'Open the sidebar' }).first().click();
  await link(ada, /^Note 1 on the fair/).waitFor();
  await accessible(ada.page, 'the sidebar on a phone');
  await pictures(ada, 'sidebar-six-390');
  await ada.page.setViewportSize(WIDE);
});

test('8 rows are shown, and “Show all” leads to all of them', async () => {
  for (const n of [3, 4, 5]) await start(ada, `Note ${n} on the fair`);
  await until(async () => (await titles(ada, /fair/)).length === 8);
  await link(ada, 'Show all').click();
  const list = main(ada).getByRole('region', { name: 'Conversations', exact: true });
  await until(async () => (await list.getByRole('listitem').count()) === 9);
  assert.equal(await link(ada, 'Show all').getAttribute('aria-current'), 'page');
  await inspect(ada, 'conversations');
  await ada.page.setViewportSize({ width: 900, height: 844 });
  await pictures(ada, 'conversations-900');
  await ada.page.setViewportSize(WIDE);
  await theme(ada, 'dark');
  await list.getByRole('searchbox', { name: 'Search titles' }).fill('note 1');
  await until(async () => (await list.getByRole('listitem').count()) === 1);
  await list.getByRole('checkbox', { name: 'Unread only' }).check();
  await list.getByRole('heading', { name: 'No matching conversations' }).waitFor();
  await list.getByRole('button', { name: 'Show all conversations' }).click();
  await until(async () => (await list.getByRole('listitem').count()) === 9);
  await list.getByRole('button', { name: 'Dives' }).click();
  await until(async () => (await list.getByRole('listitem').count()) === 1);
});

test('a resolved or abandoned dive leaves the sidebar', async () => {
  await filter(ada).selectOption('Dives');
  await until(async () => (await titles(ada, /fair/)).length === 1);
  await post(ada, `forks/${dive.id}/abandon`, {});
  await until(async () => (await titles(ada, /fair/)).length === 0);
  await filter(ada).selectOption('All');
});

test('no page logged an error', () => {
  assert.deepEqual([ada.errors, bo.errors], [[], []]);
});
