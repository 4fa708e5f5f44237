// Threads beside the open one: keys, unread threads, posting, panels, narrow windows, and the layout of Settings.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, box, button, fits, message, PHONE, WIDE } from './lib/browser.mjs';
import {
  composer,
  forkPanel,
  main,
  messageList,
  pictures,
  side,
  threadList,
  threadRow,
} from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam({ ada: { layout: 'split' } });
const { channelId } = await known(bo);
const general = channelId('general');
const start = async (content, p = ada) =>
  (await api(p, 'POST', `channels/${general}/threads`, { content })).thread;
const say = (thread, content, p = bo) => api(p, 'POST', `threads/${thread.id}/messages`, { content });
const press = (...keys) =>
  keys.reduce((done, key) => done.then(() => ada.page.keyboard.press(key)), Promise.resolve());
const until = async (check, what) => {
  for (const end = Date.now() + 10_000; !(await check());) {
    assert.ok(Date.now() < end, what ?? String(check));
    await new Promise((done) => setTimeout(done, 20));
  }
};
const title = () =>
  main(ada).getByRole('region', { name: 'Thread', exact: true }).getByRole('heading', { level: 2 }).first();
const opened = (text) =>
  until(async () => (await title().count()) === 1 && (await title().innerText()) === text, text);
const selected = () => threadList(ada).locator('a[aria-current]').allInnerTexts();
const inList = () =>
  ada.page.evaluate(() => document.activeElement?.closest('[aria-label^="Threads in"]') !== null);
const scrollTop = () => threadList(ada).evaluate((el) => el.scrollTop);
const read = (name) => threadRow(ada, name).getByText('unread message').waitFor({ state: 'detached' });
const starts = () => box(ada.page, 'Start a thread in #general');
const threads = [];

test('an empty channel takes the whole width', async () => {
  await main(ada).getByRole('heading', { name: 'Nothing here yet' }).waitFor();
  assert.equal(await main(ada).getByText('Press J').count(), 0);
  await pictures(ada, 'columns-empty');
});

test('J and K open threads beside the list, which keeps the focus', async () => {
  for (let n = 1; n <= 40; n++) threads.push(await start(`Topic ${n} of the week`));
  await main(ada).getByText('Press J to open the first thread.').waitFor();
  await accessible(ada.page, 'columns without a thread');
  await pictures(ada, 'columns-none');
  await press('j');
  await opened('Topic 40 of the week');
  assert.deepEqual(await selected(), ['Topic 40 of the week']);
  assert.ok(await inList());
  await press('j', 'j', 'k');
  await opened('Topic 39 of the week');
  assert.ok(await inList());
  assert.equal(await main(ada).getByRole('heading', { level: 1 }).count(), 1);
  await accessible(ada.page, 'columns');
  await pictures(ada, 'columns-1440');
  await ada.page.goBack();
  await main(ada).getByText('Press J to open the first thread.').waitFor();
});

test('a filter finds threads that the list has not loaded', async () => {
  for (const { id } of threads.slice(1)) await api(bo, 'PUT', `threads/${id}/read`, { seq: 1e9 });
  await side(bo)
    .getByRole('link', { name: /general/ })
    .click();
  await threadRow(bo, 'Topic 40 of the week').waitFor();
  await button(bo.page, 'Unread').click();
  await threadRow(bo, 'Topic 1 of the week').waitFor();
  assert.equal(await threadList(bo).locator('[data-thread]').count(), 1);
  await button(bo.page, 'Results').click();
  await bo.page.getByText('No matching threads').waitFor();
  await button(bo.page, 'Show all threads').click();
  await threadRow(bo, 'Topic 40 of the week').waitFor();
});

test('Enter and Right go to the conversation; Left and Escape come back', async () => {
  await press('j', 'Enter');
  await opened('Topic 40 of the week');
  await until(async () => messageList(ada).evaluate((el) => el === document.activeElement));
  await press('j');
  assert.equal(
    await message(ada.page, 'Topic 40 of the week').evaluate((el) => el === document.activeElement),
    true,
  );
  await press('ArrowLeft');
  assert.ok(await inList());
  await press('j', 'ArrowRight');
  await opened('Topic 39 of the week');
  await until(async () => messageList(ada).evaluate((el) => el === document.activeElement));
  await press('r');
  await ada.page.keyboard.type('half a sentence');
  await press('Escape');
  assert.ok(await inList());
  assert.equal(await composer(ada).inputValue(), 'half a sentence');
  await composer(ada).fill('');
});

test('opening a thread does not move the list, and keys move it only as far as needed', async () => {
  await threadList(ada).evaluate((el) => (el.scrollTop = 600));
  await until(async () => (await scrollTop()) === 600);
  const row = threadRow(ada, 'Topic 25 of the week').getByRole('link', { name: 'Topic 25 of the week' });
  await row.click();
  await opened('Topic 25 of the week');
  assert.equal(await scrollTop(), 600);
  assert.ok(await inList());
  for (let n = 0; n < 12; n++) await press('j');
  await opened('Topic 13 of the week');
  await until(async () => threadRow(ada, 'Topic 13 of the week').isVisible());
  assert.ok((await scrollTop()) > 600);
});

test('N and P open the next and the previous unread thread', async () => {
  await say(threads[4], 'One more thing about topic 5');
  await say(threads[2], 'One more thing about topic 3');
  await threadList(ada).focus();
  await press('Home');
  await threadRow(ada, 'Topic 3 of the week').getByText('unread message').waitFor({ state: 'attached' });
  await press('n');
  await opened('Topic 3 of the week');
  await read('Topic 3 of the week');
  await press('n');
  await opened('Topic 5 of the week');
  await read('Topic 5 of the week');
});

test('a read thread stays among the unread ones until another one is opened', async () => {
  await say(threads[7], 'News about topic 8');
  await say(threads[8], 'News about topic 9');
  await button(ada.page, 'Unread').click();
  await until(async () => (await threadList(ada).getByRole('listitem').count()) === 2);
  await threadRow(ada, 'Topic 9 of the week').getByRole('link').first().click();
  await opened('Topic 9 of the week');
  await read('Topic 9 of the week');
  assert.equal(await threadList(ada).getByRole('listitem').count(), 2);
  await press('j');
  await opened('Topic 8 of the week');
  await until(async () => (await threadList(ada).getByRole('listitem').count()) === 1);
  await button(ada.page, 'All').click();
});

test('a thread that is started opens beside the list, and the composer keeps the focus', async () => {
  assert.equal(await button(ada.page, 'Send').count(), 1, 'the other composer shows only its text box');
  await press('c');
  await until(async () => starts().evaluate((el) => el === document.activeElement));
  await ada.page.keyboard.type('Lunch on Friday');
  await press('Enter');
  await opened('Lunch on Friday');
  assert.deepEqual(await selected(), ['Lunch on Friday']);
  assert.ok(await starts().evaluate((el) => el === document.activeElement));
});

test('a panel replaces the list, and the list comes back as it was', async () => {
  await threadList(ada).evaluate((el) => (el.scrollTop = 300));
  await until(async () => (await scrollTop()) === 300);
  await api(ada, 'POST', `threads/${threads[20].id}/forks`, {
    message_id: threads[20].root_message_id,
    agent_id: null,
  });
  await ada.page.goto(`/northwind/c/general/t/${threads[20].id}`);
  await opened('Topic 21 of the week');
  await threadList(ada).evaluate((el) => (el.scrollTop = 300));
  await message(ada.page, 'Topic 21 of the week').getByRole('button', { name: /dive/i }).first().click();
  await forkPanel(ada).waitFor();
  await threadList(ada).waitFor({ state: 'hidden' });
  await accessible(ada.page, 'columns with a panel');
  await pictures(ada, 'columns-panel-1440');
  await ada.page.setViewportSize({ width: 1680, height: 900 });
  await threadList(ada).waitFor();
  await pictures(ada, 'columns-panel-1680');
  await ada.page.setViewportSize(WIDE);
  await ada.page.goBack();
  await threadList(ada).waitFor();
  assert.equal(await scrollTop(), 300);
});

test('narrow windows show the list, then the conversation', async () => {
  for (const [name, viewport] of [
    ['1200', { width: 1200, height: 844 }],
    ['900', { width: 900, height: 844 }],
    ['390', PHONE],
  ]) {
    await ada.page.setViewportSize(viewport);
    const both = viewport.width >= 1180;
    await composer(ada).waitFor();
    assert.equal(await threadList(ada).count(), both ? 1 : 0, name);
    await fits(ada.page, name);
    await pictures(ada, `columns-thread-${name}`);
    await ada.page.goto('/northwind/c/general');
    await threadList(ada).waitFor();
    await pictures(ada, `columns-list-${name}`);
    await accessible(ada.page, `columns, ${name}`);
    await ada.page.goto(`/northwind/c/general/t/${threads[20].id}`);
  }
  await ada.page.setViewportSize(WIDE);
});

test('Settings has a single column for those who want one', async () => {
  await ada.page.goto('/northwind/settings/appearance');
  const layout = main(ada).getByRole('group', { name: 'Layout' });
  await layout.getByRole('button', { name: 'Single column' }).click();
  await side(ada).getByRole('link', { name: 'general' }).first().click();
  await threadRow(ada, 'Lunch on Friday').getByRole('link').first().click();
  await composer(ada).waitFor();
  assert.equal(await threadList(ada).count(), 0);
  await ada.page.goto('/northwind/settings/appearance');
  await layout.getByRole('button', { name: 'Split' }).click();
  await ada.page.goBack();
  await threadList(ada).waitFor();
});

test('compact rows have one line of 36 px', async () => {
  await ada.page.goto('/northwind/settings/appearance');
  const density = main(ada).getByRole('group', { name: 'Density' });
  await density.getByRole('button', { name: 'Compact' }).click();
  const height = () =>
    threadRow(ada, 'Lunch on Friday')
      .locator('.th')
      .evaluate((row) => row.getBoundingClientRect().height);
  for (const { name, ...size } of [
    { name: 'wide', ...WIDE },
    { name: 'phone', ...PHONE },
  ]) {
    await ada.page.setViewportSize(size);
    await ada.page.goto('/northwind/c/general');
    await threadRow(ada, 'Lunch on Friday').waitFor();
    assert.equal(await height(), 36);
    await fits(ada.page, `compact, ${name}`);
    await accessible(ada.page, `compact, ${name}`);
    await pictures(ada, `compact-${name}`);
  }
  await ada.page.setViewportSize(WIDE);
  await ada.page.reload();
  await threadRow(ada, 'Lunch on Friday').waitFor();
  assert.equal(await height(), 36);
});

test('no page logged an error', () => assert.deepEqual([ada.errors, bo.errors], [[], []]));
