import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { accessible, box, button, fits, message, PHONE, shot, WIDE } from './lib/browser.mjs';
import { forkPanel, option, side, theme } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam({ bo: { theme: 'light' } });
let ids;
const field = (p) => p.page.getByRole('combobox', { name: 'Search messages' });
const found = (p) => p.page.getByRole('region', { name: 'Results, newest first' });
const hits = (p) => found(p).locator('[data-hit]');
const hit = (p, text) => hits(p).filter({ hasText: text });
const query = (p) => new URL(p.page.url()).searchParams.get('q');
/** Waits until exactly these hits are listed, newest first; each is given by a part of its text. */
const lists = async (p, ...texts) => {
  await p.page.waitForFunction((want) => {
    const rows = [...document.querySelectorAll('[data-hit]')].map((r) => r.textContent);
    return rows.length === want.length && want.every((w, i) => rows[i].includes(w));
  }, texts);
};

const start = (p, channel, content) => api(p, 'POST', `channels/${channel}/threads`, { content });
const say = async (p, thread, content) =>
  (await api(p, 'POST', `threads/${thread}/messages`, { content })).message.id;

before(async () => {
  const { channelId, member } = await known(ada);
  const secret = await api(ada, 'POST', 'channels', { name: 'board', private: true });
  const { handle } = member('Bo Chen');
  ids = { handle, general: channelId('general'), random: channelId('random'), board: secret.id };

  const { thread: long, message: root } = await start(ada, ids.random, 'The long log of the lighthouse');
  for (let i = 1; i <= 400; i++) {
    const text = i === 12 ? 'A kingfisher sat on the rail at dawn' : `Watch ${i}: nothing to report`;
    const id = await say(ada, long.id, text);
    if (i === 12) ids.far = id;
  }
  ids = { ...ids, long: long.id, root: root.id };
  await start(ada, ids.board, 'Between us: the launch costs 40,000');
  const { thread, message: first } = await start(ada, ids.general, 'Friday or Monday for the launch?');
  ids = { ...ids, thread: thread.id };
  await say(ada, thread.id, 'Nobody **deploys** on a Friday; the `launch` can wait <b>two</b> days');
  ids.bo = await say(bo, thread.id, 'Then the launch is on Monday, see https://example.com/plan');
  const { fork } = await api(ada, 'POST', `threads/${thread.id}/forks`, {
    message_id: first.id,
    agent_id: null,
  });
  for (let i = 1; i <= 70; i++)
    await api(ada, 'POST', `forks/${fork.id}/messages`, {
      content: i === 5 ? 'What if it rains at the launch?' : `A thought, number ${i}`,
    });
  ids = { ...ids, fork: fork.id };
});

test('the empty search page shows the syntax and focuses the field', async () => {
  await ada.page.keyboard.press('Control+Shift+F');
  await ada.page.getByRole('heading', { name: 'Search messages' }).waitFor();
  assert.equal(await field(ada).evaluate((f) => f === document.activeElement), true);
  await accessible(ada.page, 'search, empty');
  await shot(ada.page, '90-search-empty-dark');
});

test('the query is searched while typing, highlighted, and kept in the address', async () => {
  await field(ada).pressSequentially('launch');
  await hit(ada, 'Then the launch is on Monday').waitFor();
  await ada.page.waitForURL('**/northwind/search?q=launch');
  const marked = await hit(ada, 'deploys on a Friday').locator('mark').allTextContents();
  assert.deepEqual(marked, ['launch']);
  assert.equal(await hit(ada, 'deploys on a Friday').locator('b').count(), 0);
  assert.deepEqual(
    (await found(ada).getByRole('heading', { level: 2 }).allTextContents()).map((t) => t.trim().slice(0, 18)),
    ['Friday or Monday f', 'Between us: the la'],
  );
  await accessible(ada.page, 'what was found');
  await shot(ada.page, '91-search-dark');
  await theme(ada, 'light');
  await shot(ada.page, '92-search-light');
  await theme(ada, 'dark');
  await ada.page.setViewportSize(PHONE);
  await accessible(ada.page, 'what was found at 390 px');
  await shot(ada.page, '93-search-390-dark');
  await theme(ada, 'light');
  await shot(ada.page, '94-search-390-light');
  await theme(ada, 'dark');
  await ada.page.setViewportSize({ width: 320, height: 800 });
  await fits(ada.page, 'search at 320 px');
  await ada.page.setViewportSize(WIDE);
});

test('an address can be shared; Back returns to the previous search', async () => {
  await bo.page.goto('/northwind/search?q=launch');
  await lists(bo, 'What if it rains', 'Then the launch', 'deploys on a Friday', 'Friday or Monday');
  assert.equal(await field(bo).inputValue(), 'launch');
  assert.equal(await hit(bo, 'Between us').count(), 0, 'a private channel of others is not searched');
  await field(bo).fill('rains');
  await lists(bo, 'What if it rains');
  await bo.page.keyboard.press('Enter');
  await field(bo).fill('rains deploys');
  await bo.page.getByText('No results for “rains deploys”').waitFor();
  await bo.page.goBack();
  await lists(bo, 'What if it rains');
  assert.equal(await field(bo).inputValue(), 'rains');
  await bo.page.goBack();
  await hit(bo, 'Then the launch').waitFor();
  assert.equal(query(bo), 'launch');
});

test('filters are typed as words, with completion', async () => {
  await field(ada).fill('');
  await field(ada).pressSequentially('launch fr');
  await option(ada, /from:/).waitFor();
  await ada.page.keyboard.press('Tab');
  await option(ada, /Bo Chen/).waitFor();
  await accessible(ada.page, 'completion of a filter');
  await shot(ada.page, '95-search-completion-dark');
  await ada.page.keyboard.type('b');
  await option(ada, /Me/).waitFor({ state: 'detached' });
  await ada.page.keyboard.press('Enter');
  assert.equal(await field(ada).inputValue(), `launch from:${ids.handle} `);
  await lists(ada, 'Then the launch is on Monday');
  await button(ada.page, 'has:').click();
  await option(ada, /A link/).click();
  await lists(ada, 'Then the launch is on Monday');
  await button(ada.page, 'in:').click();
  await option(ada, /random/).click();
  await ada.page.getByText('No results for').waitFor();
  await accessible(ada.page, 'nothing found');
  await shot(ada.page, '96-search-none-dark');
  await button(ada.page, 'Without in:random').click();
  await lists(ada, 'Then the launch is on Monday');
  await button(ada.page, 'Clear the search').click();
  await field(ada).pressSequentially('after:');
  await option(ada, /Yesterday/).waitFor();
  await ada.page.keyboard.press('Escape');
  await option(ada, /Yesterday/).waitFor({ state: 'detached' });
});

test('a hit far up in a long thread opens there; Back returns to the hit', async () => {
  await field(ada).fill('kingfisher');
  await hit(ada, 'at dawn').waitFor();
  await ada.page.keyboard.press('ArrowDown');
  await ada.page.keyboard.press('Enter');
  await ada.page.waitForURL(`**/t/${ids.long}#m-${ids.far}`);
  const row = ada.page.locator(`#m-${ids.far}`);
  await row.waitFor();
  await ada.page.waitForFunction((id) => {
    const r = document.getElementById(`m-${id}`)?.getBoundingClientRect();
    return r && r.top > 0 && r.bottom < innerHeight;
  }, ids.far);
  assert.match(await row.getAttribute('class'), /flash/);
  assert.equal(await message(ada.page, 'Watch 399').count(), 0, 'the end is not loaded');
  await ada.page.goBack();
  await hit(ada, 'at dawn').waitFor();
  await ada.page.waitForFunction((id) => document.activeElement?.dataset.hit === id, ids.far);
});

test('a hit in a dive opens the dive at the message', async () => {
  await field(ada).fill('rains');
  await lists(ada, 'What if it rains');
  await hit(ada, 'What if it rains').getByText(/dive/i).waitFor();
  await hit(ada, 'What if it rains').click();
  const panel = forkPanel(ada);
  const row = message(panel, 'What if it rains at the launch?');
  await row.waitFor();
  await ada.page.waitForFunction(() => {
    const rows = [...document.querySelectorAll('aside article')];
    const r = rows.find((x) => x.textContent.includes('What if it rains'))?.getBoundingClientRect();
    return r && r.top > 0 && r.bottom < innerHeight;
  });
  await shot(ada.page, '97-search-dive-dark');
  await ada.page.goBack();
});

test('the list loads more at its end; J and K move between hits', async () => {
  await ada.page.goto('/northwind/search?q=watch%20in:random');
  await hit(ada, 'Watch 400').waitFor();
  const first = await hits(ada).count();
  assert.ok(first < 60, `${first} at first`);
  await found(ada).hover();
  await ada.page.mouse.wheel(0, 4000);
  await ada.page.waitForFunction((n) => document.querySelectorAll('[data-hit]').length > n, first);
  await field(ada).press('Escape');
  await ada.page.keyboard.press('j');
  await ada.page.keyboard.press('j');
  await ada.page.keyboard.press('j');
  await ada.page.keyboard.press('k');
  assert.match(await ada.page.evaluate(() => document.activeElement.textContent), /Watch 399/);
  await ada.page.keyboard.press('Enter');
  await ada.page.waitForURL(`**/t/${ids.long}#m-*`);
  await message(ada.page, 'Watch 399').waitFor();
});

test('Ctrl-Shift-F works anywhere; so does the switcher’s last row', async () => {
  await ada.page.keyboard.press('Control+Shift+F');
  await ada.page.getByRole('heading', { name: 'Search messages' }).waitFor();
  await side(ada).getByRole('link', { name: 'general' }).click();
  await box(ada.page, 'Start a thread in #general').waitFor();
  await ada.page.keyboard.press('Control+k');
  await ada.page.getByRole('combobox', { name: /^Jump to/ }).fill('kingfisher');
  await option(ada, 'Search messages for “kingfisher”').waitFor();
  await ada.page.keyboard.press('Enter');
  await lists(ada, 'at dawn');
  await ada.page.keyboard.press('Control+k');
  await ada.page
    .getByRole('dialog')
    .getByRole('combobox', { name: /^Jump to/ })
    .fill('general');
  await ada.page.keyboard.press('ArrowUp');
  await shot(ada.page, '98-switcher-search-dark');
  await ada.page.keyboard.press('Enter');
  await ada.page.waitForURL('**/search?q=general');
});

test('an edited hit is searched again, and a deleted one is removed immediately', async () => {
  await field(ada).fill(`launch from:${ids.handle}`);
  await lists(ada, 'Then the launch is on Monday');
  await api(bo, 'PATCH', `messages/${ids.bo}`, { content: 'The launch moved to Tuesday' });
  await lists(ada, 'The launch moved to Tuesday');
  await api(bo, 'PATCH', `messages/${ids.bo}`, { content: 'It moved to Tuesday' });
  await ada.page.getByText('No results for').waitFor();
  await field(ada).fill('moved');
  await lists(ada, 'It moved to Tuesday');
  await api(bo, 'DELETE', `messages/${ids.bo}`);
  await ada.page.getByText('No results for “moved”').waitFor();
});

test('an invalid search shows the reason; a failed one can be retried; an offline one waits', async () => {
  await field(ada).fill('-');
  await ada.page.keyboard.press('Enter');
  await ada.page.getByText('Invalid search').waitFor();
  await accessible(ada.page, 'a search that cannot be done');
  let broken = true;
  await ada.page.route('**/v1/search?**', (r) =>
    broken
      ? r.fulfill({
          status: 503,
          json: { error: { type: 'unavailable', code: 'x', message: 'The database is away.' } },
        })
      : r.continue(),
  );
  await field(ada).fill('kingfisher');
  await ada.page.getByText('Couldn’t search').waitFor();
  await accessible(ada.page, 'a search that failed');
  broken = false;
  await button(ada.page, 'Try again').click();
  await lists(ada, 'at dawn');
  await ada.page.unroute('**/v1/search?**');
  await ada.context.setOffline(true);
  await field(ada).fill('deploys');
  await ada.page.getByRole('heading', { name: 'You are offline' }).waitFor();
  await accessible(ada.page, 'search, offline');
  await ada.context.setOffline(false);
  await lists(ada, 'Nobody deploys');
});

test('a slow search shows a skeleton', async () => {
  let go;
  const gate = new Promise((r) => (go = r));
  await ada.page.route('**/v1/search?**', async (r) => {
    await gate;
    await r.continue();
  });
  await ada.page.goto('/northwind/search?q=kingfisher');
  await ada.page.getByRole('status', { name: 'Searching' }).locator('.skel').first().waitFor();
  await accessible(ada.page, 'a search that is under way');
  go();
  await lists(ada, 'at dawn');
  await ada.page.unroute('**/v1/search?**');
});

test('a viewer can search', async () => {
  await ada.page.goto('/northwind/settings/members');
  await ada.page.getByLabel('Role of Bo Chen').selectOption('viewer');
  await bo.page.goto('/northwind/search?q=kingfisher');
  await lists(bo, 'at dawn');
  await accessible(bo.page, 'search for a viewer');
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
