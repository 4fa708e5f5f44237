import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { Server } from './lib/server.mjs';

/** Maximum sizes of the scripts and styles that a first visit loads before the first paint. */
const SCRIPTS_KIB_MAX = 133;
const STYLES_KIB_MAX = 15;
let server;

before(async () => (server = await new Server({}).start()));
after(async () => server?.close());

const text = async (path) => {
  const answer = await fetch(new URL(path, server.base));
  assert.ok(answer.ok, `${path}: ${answer.status}`);
  return answer.text();
};
const kib = (body) => gzipSync(body).length / 1024;

test('the startup bundle stays within its limits', async () => {
  const page = await text('/');
  const scripts = new Map();
  const add = async (path) => {
    if (scripts.has(path)) return;
    scripts.set(path, 0);
    const body = await text(path);
    scripts.set(path, kib(body));
    for (const [, next] of body.matchAll(/(?:from|import)\s*["'](\.\/[^"']+\.js)["']/g))
      await add(new URL(next, new URL(path, server.base)).pathname);
  };
  for (const [, path] of page.matchAll(/(?:src|href)="(\/assets\/[^"]+\.js)"/g)) await add(path);
  assert.ok(scripts.size > 1, 'the scripts of the page were found');
  const sum = [...scripts.values()].reduce((n, k) => n + k, 0);
  assert.ok(sum <= SCRIPTS_KIB_MAX, `${sum.toFixed(1)} KiB of scripts: ${[...scripts.keys()].join(', ')}`);
  let styles = 0;
  for (const [, path] of page.matchAll(/href="(\/assets\/[^"]+\.css)"/g)) styles += kib(await text(path));
  assert.ok(styles > 0 && styles <= STYLES_KIB_MAX, `${styles.toFixed(1)} KiB of styles`);
});
