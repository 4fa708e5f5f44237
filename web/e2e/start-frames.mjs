// Measures the time until a thread shows its text, from the copy on this device, with and without a network, and from the server; and the
// longest task of a thread with formulas, beside one with code: `node --test e2e/start-frames.mjs`, some minutes. Not part of the test
// suite, and asserts nothing, because times depend on the machine.
import { test } from 'node:test';
import { message, person } from './lib/browser.mjs';
import { stored, until } from './lib/copy.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const LOADS = 9;
const MESSAGES = 30;
/** Formulas or blocks of code in a thread, and in each of its messages. */
const PARTS = 60;
const PARTS_A_MESSAGE = 10;
const SETTLED_MS = 3000;

const { server, browser, ada } = await startTeam({ bo: null, ada: { serviceWorkers: 'allow', keep: 'on' } });
const general = (await known(ada)).channelId('general');
const post = (path, content) => api(ada, 'POST', path, { content, client_id: crypto.randomUUID() });
const start = async (title, contents) => {
  const { thread } = await post(`channels/${general}/threads`, title);
  for (const content of contents) await post(`threads/${thread.id}/messages`, content);
  return `/northwind/c/general/t/${thread.id}`;
};
const median = (values) => Math.round([...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]);

/** Opens a new window, and returns what it has measured some time after its first text. */
async function load(p, path, settledMs = 0) {
  const page = await p.context.newPage();
  try {
    await page.goto(path);
    await page.waitForFunction((ms) => performance.now() - (window.textAt ?? Infinity) >= ms, settledMs);
    return await page.evaluate(() => ({ textAt: window.textAt, longest: window.longest }));
  } finally {
    await page.close();
  }
}
/** Notes the time of the first message and the longest task of each new window. */
const watch = (p) =>
  p.context.addInitScript(() => {
    const messages = new MutationObserver(() => {
      if (!document.querySelector('main article')) return;
      messages.disconnect();
      requestAnimationFrame(() => (window.textAt = performance.now()));
    });
    messages.observe(document, { childList: true, subtree: true });
    window.longest = 0;
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) window.longest = Math.max(window.longest, duration);
    }).observe({ type: 'longtask', buffered: true });
  });

test('start', async () => {
  const path = await start(
    'Launch',
    Array.from({ length: MESSAGES }, (_, n) => `Detail ${n}`),
  );
  const last = `Detail ${MESSAGES - 1}`;
  await ada.page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
  await ada.page.goto(path);
  await message(ada.page, last).waitFor();
  await until(async () => (await stored(ada.page))?.texts.includes(last));
  await ada.page.goto('about:blank');
  // The same files are in the cache of this window, but no copy.
  const other = await person(browser, server.base, { serviceWorkers: 'allow' });
  await other.context.addCookies((await ada.context.storageState()).cookies);
  await other.page.goto(path);
  await message(other.page, last).waitFor();
  await other.page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
  await other.page.goto('about:blank');
  await watch(ada);
  await watch(other);
  const found = { copy: [], offline: [], server: [] };
  for (let n = 0; n < LOADS; n++) {
    found.server.push((await load(other, path)).textAt);
    found.copy.push((await load(ada, path)).textAt);
    await ada.context.setOffline(true);
    found.offline.push((await load(ada, path)).textAt);
    await ada.context.setOffline(false);
  }
  await other.close();
  console.log('first text, ms', {
    copy: median(found.copy),
    offline: median(found.offline),
    server: median(found.server),
    offline_of_server: (median(found.offline) / median(found.server)).toFixed(2),
  });
});

test('formulas', async () => {
  const of = (part) =>
    Array.from({ length: PARTS / PARTS_A_MESSAGE }, (_, m) =>
      Array.from({ length: PARTS_A_MESSAGE }, (_, n) => part(m * PARTS_A_MESSAGE + n)).join('\n\n'),
    );
  const paths = {
    formulas: await start(
      'Formulas',
      of((n) => `$$\\sum_{i=0}^{${n}} \\frac{a_i^{${n}}}{\\sqrt{b + ${n}}}$$`),
    ),
    code: await start(
      'Code',
      of((n) => `\`\`\`js\nconst sum${n} = values.reduce((all, x) => all + x ** ${n}, 0);\n\`\`\``),
    ),
  };
  const visitor = await person(browser, server.base);
  await visitor.context.addCookies((await ada.context.storageState()).cookies);
  await watch(visitor);
  const found = { formulas: [], code: [] };
  for (let n = 0; n < LOADS; n++)
    for (const [name, path] of Object.entries(paths))
      found[name].push((await load(visitor, path, SETTLED_MS)).longest);
  await visitor.close();
  console.log('longest task, ms', { formulas: median(found.formulas), code: median(found.code) });
});
