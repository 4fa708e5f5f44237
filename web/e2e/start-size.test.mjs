// Size of the client before the first rows, as Chromium receives it, and of the parts that are loaded later.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { brotliCompressSync } from 'node:zlib';
import { person, startThread } from './lib/browser.mjs';
import { startTeam } from './lib/team.mjs';

const STYLES_KIB_MAX = 15;
const FILES_MAX = 10;
/** Maximum size of a part that is loaded later. */
const PART_KIB_MAX = 25;
const LOADS = 3;
const ROWS = 'main :is([data-thread], article, [data-item], .empty)';

const { server, browser, ada } = await startTeam({ bo: null });
await startThread(ada.page, 'Launch on **Monday**');
const thread = new URL(ada.page.url()).pathname;
const state = await ada.context.storageState();

/** Scripts that were requested before the first rows, in bytes as received. */
async function load(path) {
  const visitor = await person(browser, server.base, { layout: 'split' });
  try {
    await visitor.context.addCookies(state.cookies);
    await visitor.page.addInitScript((rows) => {
      const observer = new MutationObserver(() => {
        if (!document.querySelector(rows)) return;
        observer.disconnect();
        window.rowsAt = performance.now();
      });
      observer.observe(document, { childList: true, subtree: true });
    }, ROWS);
    await visitor.page.goto(path);
    await visitor.page.waitForFunction(() => window.rowsAt && document.readyState === 'complete');
    await visitor.page.waitForLoadState('networkidle');
    return await visitor.page.evaluate(() => {
      const sizes = {};
      for (const entry of performance.getEntriesByType('resource')) {
        const { pathname } = new URL(entry.name);
        if (pathname.endsWith('.js') && entry.startTime < window.rowsAt)
          sizes[pathname] = entry.encodedBodySize;
      }
      return sizes;
    });
  } finally {
    await visitor.close();
  }
}
const sum = (sizes) => Object.values(sizes).reduce((n, size) => n + size, 0);
const kib = (bytes) => `${(bytes / 1024).toFixed(1)} KiB`;

for (const [what, path, kibMax] of [
  ['a channel', '/northwind/c/general', 105],
  ['the inbox', '/northwind/inbox', 105],
  ['a thread', thread, 125],
]) {
  test(`${what} shows its first rows after at most ${kibMax} KiB of scripts in ${FILES_MAX} files`, async () => {
    let least = null;
    for (let n = 0; n < LOADS; n++) {
      const sizes = await load(path);
      if (!least || sum(sizes) < sum(least)) least = sizes;
    }
    const files = Object.entries(least).sort((a, b) => b[1] - a[1]);
    const list = files.map(([name, size]) => `  ${kib(size)} ${name}`).join('\n');
    console.log(`${what}: ${kib(sum(least))} in ${files.length} files\n${list}`);
    assert.ok(files.length > 1, 'the scripts of the page were found');
    assert.ok(sum(least) <= kibMax * 1024, `${what}: ${kib(sum(least))}\n${list}`);
    assert.ok(files.length <= FILES_MAX, `${what}: ${files.length} files\n${list}`);
  });
}

const get = async (path) => {
  const answer = await fetch(new URL(path, server.base), { headers: { 'accept-encoding': 'br' } });
  assert.ok(answer.ok, `${path}: ${answer.status}`);
  return answer.text();
};
const packed = (text) => brotliCompressSync(text).length;

test('each part that is loaded later stays within its limit', async () => {
  const { paths } = JSON.parse(/SHELL = (\{.*?\});/.exec(await get('/sw.js'))[1]);
  const parts = paths.filter((path) => path.endsWith('.js') && !/\/(?:start|base)-/.test(path));
  assert.ok(parts.length > 50, 'the parts were found');
  for (const path of parts) {
    const size = packed(await get(path));
    assert.ok(size <= PART_KIB_MAX * 1024, `${path}: ${kib(size)}`);
  }
});

test('the styles of the page stay within their limit', async () => {
  let styles = 0;
  for (const [, path] of (await get('/')).matchAll(/href="(\/assets\/[^"]+\.css)"/g))
    styles += packed(await get(path));
  assert.ok(styles > 0 && styles <= STYLES_KIB_MAX * 1024, `${kib(styles)} of styles`);
});
