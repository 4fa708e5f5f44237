import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { message, person, reply, startThread } from './lib/browser.mjs';
import { messageList, signIn } from './lib/parts.mjs';
import { startTeam } from './lib/team.mjs';

const COUNT = 260;
const { server, browser, ada, bo } = await startTeam();
let thread;
const inDom = (p) => p.page.getByRole('article').count();
/** Scrolls with the wheel until the condition is true. */
const wheelTo = async (p, way, sign) => {
  await messageList(p).hover();
  for (let i = 0; i < 200 && !(await sign.isVisible()); i++) {
    await p.page.mouse.wheel(0, way * 900);
    await p.page.evaluate(() => new Promise(requestAnimationFrame));
  }
  await sign.waitFor();
};

before(async () => {
  await startThread(ada.page, 'The very first line');
  thread = new URL(ada.page.url()).pathname;
  await ada.page.evaluate(async (count) => {
    const url = `/v1/threads/${location.pathname.split('/').at(-1)}/messages`;
    for (let i = 1; i <= count; i++) {
      const content = `Line number ${i}${i % 7 ? '' : '\n\n- with\n- a list'}`;
      const r = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ content }),
      });
      if (!r.ok) throw new Error(`${r.status} ${await r.text()}`);
    }
  }, COUNT);
});

test('a person who was present sees the end, with few mounted rows', async () => {
  await message(ada.page, `Line number ${COUNT}`).waitFor();
  assert.ok((await inDom(ada)) < 60, `${await inDom(ada)} rows`);
});

test('a late visitor starts at the first unread message', async () => {
  await bo.page.locator('main').getByRole('link', { name: 'The very first line' }).click();
  await message(bo.page, `Line number ${COUNT}`)
    .or(bo.page.getByRole('separator', { name: 'New messages' }))
    .first()
    .waitFor();
  assert.ok((await inDom(bo)) < 60, `${await inDom(bo)} rows`);
});

test('scrolling up loads older pages to the first line, without jumps', async () => {
  await wheelTo(ada, -1, message(ada.page, 'The very first line'));
  assert.ok((await inDom(ada)) < 60, `${await inDom(ada)} rows`);
  const numbers = await ada.page
    .getByRole('article')
    .evaluateAll((rows) => rows.map((r) => Number(/number (\d+)/.exec(r.textContent)?.[1] ?? 0)));
  assert.deepEqual(
    numbers,
    numbers.map((_, i) => i),
    'no line is missing or out of order',
  );
});

test('new messages do not move a reader who is scrolled up; the pill counts them and jumps to them', async () => {
  const before = await messageList(ada).evaluate((el) => el.scrollTop);
  await reply(bo.page, 'fresh from Bo');
  await ada.page.getByRole('button', { name: '1 new' }).waitFor();
  assert.equal(await messageList(ada).evaluate((el) => el.scrollTop), before);
  await ada.page.getByRole('button', { name: '1 new' }).click();
  await message(ada.page, 'fresh from Bo').waitFor();
});

test('at the end, the list follows new messages', async () => {
  await reply(bo.page, 'one more from Bo');
  await message(ada.page, 'one more from Bo').waitFor();
  const gap = await messageList(ada).evaluate((el) => el.scrollHeight - el.scrollTop - el.clientHeight);
  assert.ok(gap < 5, `${gap}px from the end`);
});

test('a link into the middle opens there, loads in both directions, and returns to the end', async () => {
  await wheelTo(
    ada,
    -1,
    message(ada.page, 'Line number 120 ')
      .or(message(ada.page, /Line number 120$/))
      .first(),
  );
  const id = await ada.page
    .getByRole('article')
    .filter({ hasText: /Line number 120\s*$/ })
    .first()
    .getAttribute('id');
  const cold = await person(browser, server.base);
  await signIn(cold, 'bo@example.com');
  await cold.page.goto(`${thread}#${id}`);
  await cold.page.waitForFunction((i) => document.getElementById(i)?.classList.contains('flash'), id);
  const seen = await cold.page.evaluate((i) => {
    const r = document.getElementById(i).getBoundingClientRect();
    return r.top > 50 && r.bottom < innerHeight - 80;
  }, id);
  assert.ok(seen, 'the linked message is in sight');
  await wheelTo(cold, 1, message(cold.page, 'one more from Bo'));
  await wheelTo(cold, -1, message(cold.page, /Line number 101\b/));
  await cold.page.getByRole('button', { name: 'Jump to latest' }).click();
  await message(cold.page, 'one more from Bo').waitFor();
  assert.deepEqual(cold.errors, []);
  await cold.close();
});

test('my own message scrolls to the end', async () => {
  assert.equal(await message(ada.page, 'one more from Bo').count(), 0, 'still reading back');
  await reply(ada.page, 'back at the end');
  await message(ada.page, 'back at the end').waitFor();
  const gap = await messageList(ada).evaluate((el) => el.scrollHeight - el.scrollTop - el.clientHeight);
  assert.ok(gap < 5, `${gap}px from the end`);
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
