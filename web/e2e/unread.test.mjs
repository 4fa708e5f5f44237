// Unread messages stay unread until they have been on screen; thread lists do not lose any.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import {
  accessible,
  box,
  button,
  fits,
  message,
  person,
  PHONE,
  shot,
  startThread,
  WIDE,
} from './lib/browser.mjs';
import { messageList, side, signIn, theme } from './lib/parts.mjs';
import { known, startTeam } from './lib/team.mjs';

const UNREAD = 120;
const THREADS = 600;
const ELSEWHERE = 420;
const { server, browser, ada, bo } = await startTeam();
let thread;
const bar = (p) => p.page.getByRole('region', { name: 'Unread messages' });
/** Posts as this person, through the API. */
const post = (p, path, bodies) =>
  p.page.evaluate(
    async ({ path, bodies }) => {
      const queue = [...bodies];
      const worker = async () => {
        for (let body = queue.shift(); body; body = queue.shift()) {
          const r = await fetch(path, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify(body),
          });
          if (!r.ok) throw new Error(`${r.status} ${await r.text()}`);
        }
      };
      await Promise.all(Array.from({ length: path.endsWith('/threads') ? 6 : 1 }, worker));
    },
    { path, bodies },
  );
const counts = (p) =>
  p.page.evaluate(async (id) => {
    const t = await (await fetch(`/v1/threads/${id}`)).json();
    return { unread: t.unread_count, mentions: t.mention_count };
  }, thread);
/** Read markers that Ada's browser sent. */
const marks = [];
ada.page.on('request', (r) => r.url().endsWith(`/${thread}/read`) && marks.push(r.postDataJSON().seq));
/**
 * Keeps Ada's messages on screen for more than a second. Returns her counts, and the markers sent
 * as a result. This test is about time, so it really waits: with a simulated clock, the list and
 * its timers sometimes disagree.
 */
const onScreenForASecond = async () => {
  const before = marks.length;
  await ada.page.evaluate(() => new Promise((done) => setTimeout(done, 1300)));
  const after = await counts(ada); // requested after a marker would be
  return { ...after, marked: marks.slice(before) };
};
/** Waits for the first truthy result. */
const until = async (check) => {
  for (const end = Date.now() + 20_000; Date.now() < end;) {
    const found = await check();
    if (found) return found;
  }
  throw new Error(`not in time: ${check}`);
};

before(async () => {
  await startThread(bo.page, 'Plans for the fair');
  await bo.page.waitForURL('**/t/**');
  thread = new URL(bo.page.url()).pathname.split('/').at(-1);
  await ada.page.locator('main').getByRole('link', { name: 'Plans for the fair' }).click();
  await message(ada.page, 'Plans for the fair').waitFor();
  await ada.page.waitForResponse((r) => r.url().endsWith('/read') && r.ok());
  await ada.page.goto('/northwind/c/random');
  await box(ada.page, 'Start a thread in #random').waitFor();
  const texts = Array.from({ length: UNREAD }, (_, i) => ({
    content: i === 9 ? `@ada-lindholm line number ${i + 1}` : `Line number ${i + 1}`,
  }));
  await post(bo, `/v1/threads/${thread}/messages`, texts);
});

test('a thread with 120 unread messages opens at the first one', async () => {
  assert.deepEqual(await counts(ada), { unread: UNREAD, mentions: 1 });
  await ada.page.goto('/northwind/c/general');
  await ada.page.locator('main').getByRole('link', { name: 'Plans for the fair' }).click();
  await ada.page.getByRole('separator', { name: 'New messages' }).waitFor();
  const first = message(ada.page, /Line number 1\b/).first();
  await first.waitFor();
  const top = await messageList(ada).evaluate((el) => el.getBoundingClientRect().top);
  const at = await first.boundingBox();
  assert.ok(at.y >= top && at.y < top + 200, `the first unread message is ${at.y - top}px down`);
  assert.equal(await button(bar(ada), 'Jump').count(), 0, 'there is nothing above to jump to');
});

test('jumping to the end leaves unseen messages unread, and shows their number', async () => {
  // The messages on the first screen are read.
  await until(async () => (await counts(ada)).unread < UNREAD);
  await button(ada.page, 'Jump to latest').click();
  await message(ada.page, `Line number ${UNREAD}`).waitFor();
  // The skipped messages are the unread ones that are not on screen now.
  const skipped = await until(async () => {
    const { unread } = await counts(ada);
    const { shown, text } = await ada.page.evaluate(() => {
      const { top, bottom } = document.querySelector('[aria-label="Messages"]').getBoundingClientRect();
      const shown = [...document.querySelectorAll('article')].filter((a) => {
        const r = a.getBoundingClientRect();
        return r.bottom > top && r.top < bottom;
      });
      return {
        shown: shown.length,
        text: document.querySelector('[aria-label="Unread messages"]')?.textContent,
      };
    });
    return text?.startsWith(`${unread - shown} messages skipped`) && unread - shown;
  });
  assert.ok(skipped > 20 && skipped < UNREAD, `${skipped} skipped`);
  const { unread } = await counts(ada);
  assert.deepEqual(await onScreenForASecond(), { unread, mentions: 0, marked: [] });
  assert.match(await bar(ada).innerText(), new RegExp(`^${skipped} messages skipped`));
  await accessible(ada.page, 'skipped messages');
  await shot(ada.page, '90-skipped-dark');
  await theme(ada, 'light');
  await shot(ada.page, '90-skipped-light');
  await ada.page.setViewportSize(PHONE);
  await fits(ada.page, 'skipped messages on a phone');
  await shot(ada.page, '90-skipped-phone-light');
  await theme(ada, 'dark');
  await shot(ada.page, '90-skipped-phone-dark');
  await ada.page.setViewportSize(WIDE);
});

test('Go back returns to the first unread message, and stays there', async () => {
  const { unread } = await counts(ada);
  await button(ada.page, 'Go back').click();
  const first = message(ada.page, new RegExp(`Line number ${UNREAD - unread + 1}\\b`)).first();
  await first.waitFor();
  await bar(ada).getByText('skipped').waitFor({ state: 'detached' });
  await onScreenForASecond();
  const top = await messageList(ada).evaluate((el) => el.getBoundingClientRect().top);
  const at = await first.boundingBox();
  assert.ok(at && at.y >= top && at.y < top + 200, `it is ${at && at.y - top}px down`);
  assert.equal(await button(ada.page, 'Jump to latest').count(), 1, 'what comes below is one click away');
});

test('after a link far below the divider, the bar shows since when, and Jump leads there', async () => {
  const other = await person(browser, server.base);
  await signIn(other, 'ada@example.com');
  const { id, unread } = await other.page.evaluate(async (t) => {
    const { data } = await (await fetch(`/v1/threads/${t}/messages?limit=20`)).json();
    return { id: data[0].id, unread: (await (await fetch(`/v1/threads/${t}`)).json()).unread_count };
  }, thread);
  await other.page.goto(`/northwind/c/general/t/${thread}#m-${id}`);
  await other.page.waitForFunction((i) => document.getElementById(`m-${i}`), id);
  await bar(other)
    .getByText(new RegExp(`^${unread} new messages since \\d\\d:\\d\\d`))
    .waitFor();
  await accessible(other.page, 'the unread bar');
  await shot(other.page, '91-unread-bar-dark');
  await button(other.page, 'Jump').click();
  await other.page.getByRole('separator', { name: 'New messages' }).waitFor();
  await button(bar(other), 'Jump').waitFor({ state: 'detached' });
  assert.deepEqual(other.errors, []);
  await other.close();
});

test('Mark as read marks the whole thread', async () => {
  await ada.page.reload();
  await button(ada.page, 'Jump to latest').click();
  await button(ada.page, 'Mark as read').click();
  await bar(ada).waitFor({ state: 'detached' });
  assert.deepEqual(await counts(ada), { unread: 0, mentions: 0 });
});

test('messages that arrive while the tab is hidden stay unread until they are on screen', async () => {
  // The reader has been at the end of the thread since "Jump to latest" above.
  await until(() => messageList(ada).evaluate((el) => el.scrollHeight - el.scrollTop - el.clientHeight < 2));
  await ada.page.evaluate(() => {
    Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await post(bo, `/v1/threads/${thread}/messages`, [{ content: 'said behind the back' }]);
  await message(ada.page, 'said behind the back').waitFor();
  assert.deepEqual(await onScreenForASecond(), { unread: 1, mentions: 0, marked: [] });
  const marked = ada.page.waitForResponse((r) => r.url().endsWith('/read') && r.ok());
  await ada.page.evaluate(() => {
    delete document.visibilityState;
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await marked;
  assert.equal((await counts(ada)).unread, 0);
});

test('every thread of a long list is reachable, with few mounted rows, despite changes elsewhere', async () => {
  const titles = (name, n) => Array.from({ length: n }, (_, i) => ({ content: `${name} ${i + 1}.` }));
  await post(bo, `/v1/channels/${(await known(bo)).channelId('random')}/threads`, titles('Topic', THREADS));
  await side(ada)
    .getByRole('link', { name: /^random/ })
    .click();
  const region = ada.page.getByRole('region', { name: 'Threads in #random' });
  await region.getByRole('link').first().waitFor();
  await shot(ada.page, '92-list-dark');
  await theme(ada, 'light');
  await shot(ada.page, '92-list-light');
  await theme(ada, 'dark');
  const { titles: found, most } = await region.evaluate(async (el, total) => {
    const titles = new Set();
    let most = 0;
    const frame = () => new Promise(requestAnimationFrame);
    for (let i = 0; i < 4000 && titles.size < total; i++) {
      const rows = [...el.querySelectorAll('a.title')];
      for (const row of rows) titles.add(row.textContent);
      most = Math.max(most, rows.length);
      el.scrollTop += 500;
      await frame();
    }
    return { titles: titles.size, most };
  }, THREADS);
  assert.equal(found, THREADS);
  assert.ok(most <= 60, `${most} rows in the page`);
  await accessible(ada.page, 'a long list of threads');
  await post(
    bo,
    `/v1/channels/${(await known(bo)).channelId('general')}/threads`,
    titles('Elsewhere', ELSEWHERE),
  );
  await region
    .getByRole('link', { name: /^Topic/ })
    .first()
    .waitFor();
  const shown = await region.getByRole('link', { name: /^Topic/ }).count();
  assert.ok(shown > 3, `${shown} threads on screen`);
  // A click also counts while the list scrolls: here, it scrolls until the button is released.
  const { x, y, width, height } = await region.boundingBox();
  await ada.page.mouse.move(x + width / 2, y + height / 2);
  await ada.page.mouse.down();
  await region.evaluate(async (el) => {
    const frame = () => new Promise(requestAnimationFrame);
    let [steps, released] = [0, false];
    addEventListener('mouseup', () => (released = true), { once: true, capture: true });
    const scroll = async () => {
      while (!released) {
        el.scrollTop += steps++ % 2 ? 1 : -1;
        await frame();
      }
    };
    void scroll();
    while (steps < 4) await frame();
  });
  await ada.page.mouse.up();
  await ada.page.getByRole('heading', { level: 1, name: /^Topic/ }).waitFor();
  await ada.page.setViewportSize(PHONE);
  await ada.page.goto('/northwind/c/random');
  await region.getByRole('link').first().waitFor();
  await shot(ada.page, '92-list-phone-dark');
  await ada.page.setViewportSize(WIDE);
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
