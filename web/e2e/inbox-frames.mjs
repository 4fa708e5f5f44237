// Measures the start of the client, and the inbox with many items: `node --test e2e/inbox-frames.mjs`, some minutes. With
// `BEFORE=DIRECTORY`, the start is also measured with the client of another commit, alternately. Not part of the test suite, and asserts
// nothing, because times depend on the machine.
import { test } from 'node:test';
import { message, person } from './lib/browser.mjs';
import { main } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const FEW = 100;
const MANY = 10_000;
const FOLLOWED = 2500;
const PER_THREAD = 100;
const LOADS = 7;
const KEYS = 200;
const AT_ONCE = 4;
const ROWS = 'main :is([data-thread], article, [data-item], .empty)';

const sorted = (values) => [...values].sort((a, b) => a - b);
const at = (values, share) => Math.round(sorted(values)[Math.floor((values.length - 1) * share)] * 10) / 10;
const post = (p, path, content) => api(p, 'POST', path, { content, client_id: crypto.randomUUID() });
/** Does something for each number below `count`, a few at once. */
const each = async (count, make) => {
  let next = 0;
  const work = async () => {
    while (next < count) await make(next++);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
};

/** Time of the first rows and of the largest paint of a new window, in ms. */
async function load({ browser, server, ada }, path) {
  const visitor = await person(browser, server.base, { layout: 'split' });
  try {
    await visitor.context.addCookies((await ada.context.storageState()).cookies);
    await visitor.page.addInitScript((rows) => {
      const observer = new MutationObserver(() => {
        if (!document.querySelector(rows)) return;
        observer.disconnect();
        requestAnimationFrame(() => (window.rowsAt = performance.now()));
      });
      observer.observe(document, { childList: true, subtree: true });
      new PerformanceObserver((list) => (window.paintAt = list.getEntries().at(-1).startTime)).observe({
        type: 'largest-contentful-paint',
        buffered: true,
      });
    }, ROWS);
    await visitor.page.goto(path);
    await visitor.page.waitForFunction(() => window.rowsAt && window.paintAt);
    await visitor.page.waitForLoadState('networkidle');
    return await visitor.page.evaluate(() => ({ rows: window.rowsAt, paint: window.paintAt }));
  } finally {
    await visitor.close();
  }
}

test('start', async () => {
  const teams = { now: await startTeam({ bo: null }) };
  const dist = process.env.BEFORE;
  if (dist) teams.before = await startTeam({ bo: null, env: { OPENVIBE_WEB_DIST: dist } });
  const paths = {};
  for (const [name, { ada }] of Object.entries(teams)) {
    const general = (await known(ada)).channelId('general');
    const { thread } = await post(ada, `channels/${general}/threads`, 'Launch on **Monday**');
    for (let n = 0; n < 30; n++) await post(ada, `threads/${thread.id}/messages`, `Detail ${n}`);
    paths[name] = ['/northwind/c/general', '/northwind/inbox', `/northwind/c/general/t/${thread.id}`];
  }
  for (const [i, what] of ['channel', 'inbox', 'thread'].entries()) {
    const found = { now: [], before: [] };
    for (let n = 0; n < LOADS; n++)
      for (const [name, team] of Object.entries(teams)) found[name].push(await load(team, paths[name][i]));
    for (const name of Object.keys(teams)) {
      const of = (key) =>
        at(
          found[name].map((x) => x[key]),
          0.5,
        );
      console.log(`${what}, ${name}`, { first_rows_ms: of('rows'), largest_paint_ms: of('paint') });
    }
  }
});

test('many items', async () => {
  const team = await startTeam();
  const { ada, bo } = team;
  const { page } = ada;
  const { channelId, member } = await known(bo);
  const general = channelId('general');
  const handle = member('Ada Lindholm').handle;
  const start = async (p, title) => (await post(p, `channels/${general}/threads`, title)).thread.id;
  const mention = async (from, to) => {
    const threads = [];
    await each(Math.ceil((to - from) / PER_THREAD), async (n) => {
      threads[n] = await start(bo, `Thread ${from + n}`);
    });
    await each(to - from, (n) =>
      post(bo, `threads/${threads[n % threads.length]}/messages`, `@${handle} can you check ${from + n}?`),
    );
  };
  const measure = async (what) => {
    const loads = [];
    for (let n = 0; n < LOADS; n++) loads.push((await load(team, '/northwind/inbox')).rows);
    await page.goto('/northwind/inbox');
    await main(ada).locator('[data-item]').first().waitFor();
    await page.evaluate(() => {
      window.moves = [];
      let pressed = 0;
      addEventListener('keydown', (e) => (pressed = e.timeStamp), true);
      new MutationObserver(() => {
        if (!pressed) return;
        const since = pressed;
        pressed = 0;
        requestAnimationFrame(() => window.moves.push(performance.now() - since));
      }).observe(document.querySelector('main'), { attributeFilter: ['aria-current'], subtree: true });
    });
    for (let n = 0; n < KEYS; n++) await page.keyboard.press(n % 40 < 20 ? 'j' : 'k');
    await message(page, 'can you check').first().waitFor();
    const moves = await page.evaluate(() => window.moves);
    console.log(what, {
      first_rows_ms: at(loads, 0.5),
      moves: moves.length,
      j_p50_ms: at(moves, 0.5),
      j_p95_ms: at(moves, 0.95),
    });
  };
  await mention(0, FEW);
  await measure(`${FEW} items`);
  await mention(FEW, MANY);
  await each(FOLLOWED, (n) => start(ada, `Own thread ${n}`));
  await measure(`${MANY} items, ${FOLLOWED} follows`);
});
