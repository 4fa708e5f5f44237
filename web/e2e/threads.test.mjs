// Navigation in threads and conversations: list, switcher, find, menus, keyboard.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, box, button, message, PHONE, reply, shot, startThread, WIDE } from './lib/browser.mjs';
import { composer, main, side, threadRow } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam({ bo: { theme: 'light' } });
const home = (p, channel = 'general') => side(p).getByRole('link', { name: channel }).click();
/** Text that is marked by the find bar. */
const marked = (page) =>
  page.evaluate(() =>
    ['find-hit', 'find-current'].flatMap((name) => [...(CSS.highlights.get(name) ?? [])].map(String)),
  );
const focusedText = (p) => p.page.evaluate(() => document.activeElement.textContent.trim());

test('a row is 56 px high: the title, and one line of the newest text', async () => {
  await startThread(ada.page, 'Launch on Monday\n\nThe fair is on Wednesday.');
  await home(ada);
  await threadRow(ada, 'Launch on Monday').getByText('The fair is on Wednesday.').waitFor();
  // The first row of a day also contains its heading.
  assert.equal((await threadRow(ada, 'Launch on Monday').locator('.th').boundingBox()).height, 56);
});

test('threads that are started are listed, newest first', async () => {
  for (const text of ['Second thread', 'Third thread']) {
    await startThread(ada.page, text);
    await home(ada);
    await threadRow(ada, text).waitFor();
  }
  await accessible(ada.page, 'a channel');
  await shot(ada.page, '40-channel-rows-dark');
  await ada.page.setViewportSize(PHONE);
  await accessible(ada.page, 'a channel at 390 px');
  await shot(ada.page, '41-channel-rows-390-dark');
  await ada.page.setViewportSize(WIDE);
});

test('keyboard in the list: skip link, J, K, arrows, Enter, and ] to the next unread thread', async () => {
  const { page } = bo;
  await page.goto('/northwind/c/general');
  await threadRow(bo, 'Third thread').waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await focusedText(bo), 'Skip to threads');
  await page.keyboard.press('Enter');
  assert.equal(await focusedText(bo), 'Third thread');
  await page.keyboard.press('j');
  assert.equal(await focusedText(bo), 'Second thread');
  await page.keyboard.press('ArrowDown');
  assert.equal(await focusedText(bo), 'Launch on Monday');
  await page.keyboard.press('k');
  assert.equal(await focusedText(bo), 'Second thread');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Second thread' }).waitFor();
  await page.keyboard.press(']');
  await page.getByRole('heading', { name: 'Launch on Monday' }).waitFor();
  await page.keyboard.press('[');
  await page.getByRole('heading', { name: /thread$/ }).waitFor();
});

test('Ctrl-B, Ctrl-I, Ctrl-E, lists, and a URL over a selection', async () => {
  const { page } = ada;
  await threadRow(ada, 'Second thread').click();
  await composer(ada).fill('bold');
  await page.keyboard.press('Control+a');
  await page.keyboard.press('Control+b');
  assert.equal(await composer(ada).inputValue(), '**bold**');
  await page.keyboard.press('Control+z');
  assert.equal(await composer(ada).inputValue(), 'bold', 'and the browser can undo it');
  await page.keyboard.press('Control+a');
  await page.evaluate(() => navigator.clipboard.writeText('https://example.com/plan'));
  await page.keyboard.press('Control+v');
  assert.equal(await composer(ada).inputValue(), '[bold](https://example.com/plan)');
  await composer(ada).fill('- one');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('two');
  assert.equal(await composer(ada).inputValue(), '- one\n- two');
  await composer(ada).fill('');
});

test('Ctrl-F searches the whole thread; next and previous move between hits', async () => {
  const { page } = ada;
  for (const text of ['The needle is here', 'Some hay', 'A second needle']) await reply(page, text);
  await message(page, 'A second needle').waitFor();
  await page.keyboard.press('Control+f');
  await box(page, 'Find in this thread').fill('needle');
  await page.getByText('1 of 2', { exact: true }).waitFor();
  await page.waitForURL(/#m-msg_/);
  const first = page.url();
  await accessible(page, 'Find in this thread');
  await shot(page, '42-find-in-thread-dark');
  await page.keyboard.press('Enter');
  await page.getByText('2 of 2', { exact: true }).waitFor();
  assert.notEqual(page.url(), first);
  await page.waitForFunction(() => CSS.highlights.get('find-hit')?.size === 1);
  assert.deepEqual(await marked(page), ['needle', 'needle'], 'all hits are marked');
  await page.keyboard.press('Shift+Enter');
  await page.getByText('1 of 2', { exact: true }).waitFor();
  assert.equal(page.url(), first);
  await box(page, 'Find in this thread').fill('nothing like it');
  await page.getByText('No results').waitFor();
  const again = await page.evaluate(() => {
    const e = new KeyboardEvent('keydown', { key: 'f', ctrlKey: true, bubbles: true, cancelable: true });
    return document.activeElement.dispatchEvent(e);
  });
  assert.equal(again, true, 'the second Ctrl-F is the browser’s');
  await page.keyboard.press('Escape');
  await box(page, 'Find in this thread').waitFor({ state: 'detached' });
  assert.deepEqual(await marked(page), [], 'nothing is marked after Esc');
});

test('in a narrow column, the title comes first, with at least ten letters', async () => {
  const { page } = ada;
  for (const width of [PHONE.width, 320]) {
    await page.setViewportSize({ width, height: PHONE.height });
    const heading = page.getByRole('heading', { level: 1 });
    const letters = await heading.evaluate((el) => {
      const range = document.createRange();
      const text = el.firstChild;
      const { right } = el.getBoundingClientRect();
      for (let end = 1; end <= text.length; end++) {
        range.setStart(text, end - 1);
        range.setEnd(text, end);
        if (range.getBoundingClientRect().right > right + 1) return end - 1;
      }
      return text.length;
    });
    assert.ok(letters >= 10, `${letters} letters at ${width} px`);
    await accessible(page, `a thread at ${width} px`);
    await shot(page, `42-thread-header-${width}-dark`);
  }
  await page.setViewportSize(WIDE);
});

test('a thread is renamed, archived, and unarchived from its menu', async () => {
  const { page } = ada;
  await button(page, 'Thread menu').click();
  await accessible(page, 'the thread menu');
  await page.getByRole('menuitem', { name: 'Rename' }).click();
  await box(page, 'Title').fill('Where the needle is');
  await button(page, 'Save').click();
  await page.getByRole('heading', { name: 'Where the needle is' }).waitFor();
  await button(page, 'Thread menu').click();
  await page.getByRole('menuitem', { name: 'Archive', exact: true }).click();
  await page.getByText('This thread is archived').waitFor();
  await button(page, 'Undo').click();
  await composer(ada).waitFor();
});

test('the switcher finds threads of unopened channels, without moving the selected row', async () => {
  const { page } = bo;
  await page.goto('/northwind/c/random');
  await box(page, 'Start a thread in #random').waitFor();
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: /^Jump to/ }).pressSequentially('Where the need');
  const option = page.getByRole('option', { name: /^Where the needle is/ });
  await option.waitFor();
  await accessible(page, 'the switcher with threads from the server');
  await shot(page, '43-switcher-server-light');
  await page.getByRole('combobox', { name: /^Jump to/ }).fill('');
  // The response is held until the test has selected a row.
  let go;
  const gate = new Promise((r) => (go = r));
  await page.route('**/v1/search**', async (r) => {
    await gate;
    await r.continue();
  });
  await page.getByRole('combobox', { name: /^Jump to/ }).fill('Where the needle');
  await page.getByText('Searching…').waitFor();
  await page.keyboard.press('ArrowDown');
  const selected = () => page.locator('[role=option][aria-selected=true]');
  const before = await selected().boundingBox();
  const words = await selected().innerText();
  go();
  await option.waitFor();
  assert.equal(await selected().innerText(), words);
  assert.equal(words.includes('Search messages'), true);
  assert.ok((await selected().boundingBox()).y <= before.y);
  await page.unroute('**/v1/search**');
  await option.click();
  await page.getByRole('heading', { name: 'Where the needle is' }).waitFor();
});

test('each conversation with an agent is in its menu; the switcher lists them under its name', async () => {
  const { page } = ada;
  await button(page, 'New message').click();
  await page.getByRole('dialog').getByRole('button', { name: /Vibe/ }).click();
  const write = box(page, 'Message Vibe');
  for (const text of ['First conversation', 'Second conversation', 'Third conversation']) {
    if (text === 'Second conversation') await button(page, 'New chat').click();
    if (text === 'Third conversation') {
      await page.keyboard.press('Control+Shift+O');
      await page.getByText('Vibe will reply in a new thread').waitFor();
    }
    await write.fill(text);
    await page.keyboard.press('Enter');
    await message(page, text).first().waitFor();
    await page.getByRole('article', { name: /^Vibe/ }).first().waitFor();
  }
  await button(page, 'Conversations').click();
  const menu = page.getByRole('dialog', { name: 'Conversations' });
  await menu.getByRole('link', { name: /^First conversation/ }).waitFor();
  await menu.getByRole('listitem').nth(2).waitFor();
  assert.equal(await menu.getByRole('listitem').count(), 3);
  await accessible(page, 'Conversations');
  await shot(page, '44-conversations-dark');
  await page.setViewportSize(PHONE);
  await accessible(page, 'Conversations at 390 px');
  await shot(page, '45-conversations-390-dark');
  await page.setViewportSize(WIDE);
  const search = menu.getByRole('searchbox', { name: 'Search titles' });
  await search.fill('second');
  await menu.getByRole('link', { name: /^First conversation/ }).waitFor({ state: 'detached' });
  assert.equal(await menu.getByRole('listitem').count(), 1);
  await search.fill('nothing like it');
  await menu.getByText('No matching conversations').waitFor();
  await search.fill('');
  await button(page, 'Rename First conversation').click();
  await box(page, 'Title').fill('About the beginning');
  await button(page, 'Save').click();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('About the beg');
  await page.getByRole('option', { name: /About the beginning\s*Vibe/ }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'About the beginning' }).waitFor();
  await button(page, 'Conversations').click();
  await button(page, 'Archive About the beginning').click();
  await menu.getByText('Archived').waitFor();
});

test('between people, the header does not mention agents', async () => {
  const { page } = bo;
  await home(bo);
  await threadRow(bo, 'Launch on Monday').click();
  await button(page, 'Agents reply when mentioned').waitFor();
  await button(page, 'New message').click();
  await page
    .getByRole('dialog')
    .getByRole('button', { name: /Ada Lindholm/ })
    .click();
  await button(page, 'Start conversation').click();
  await box(page, 'Message Ada Lindholm').fill('Hello');
  await page.keyboard.press('Enter');
  await message(page, 'Hello').waitFor();
  assert.equal(await button(page, 'Agents reply when mentioned').count(), 0);
  assert.equal(await page.locator('main header').getByText('Nobody').count(), 0);
});

test('Recent replies: the newest six first, out of more than a page of tasks', async () => {
  const { page } = ada;
  const general = (await known(ada)).channelId('general');
  const started = [];
  for (let i = 1; i <= 24; i++) {
    const { thread } = await api(ada, 'POST', `channels/${general}/threads`, {
      content: `@coder question ${i}`,
    });
    started.unshift(thread.id);
  }
  await side(ada).getByRole('button', { name: 'Coder' }).click();
  await page.getByRole('region', { name: 'Agent', exact: true }).waitFor();
  await page.reload(); // tasks that ended are known only from the request
  await page.waitForFunction(
    (expected) => {
      const links = [...document.querySelectorAll('[aria-label="Agent"] li a')];
      return String(links.map((a) => a.pathname.split('/').at(-1))) === expected;
    },
    String(started.slice(0, 6)),
  );
  await page.getByText('Recent replies').waitFor();
  await accessible(page, 'an agent with recent replies');
  await page.goto('/northwind/settings/agents');
  await main(ada).getByRole('link', { name: /Coder/ }).click();
  await page.getByText('Recent replies').waitFor();
  await accessible(page, 'an agent’s page with recent replies');
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
