// The client without a network: the page opens, written text is kept, and it is sent exactly once.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { accessible, box, button, message, PHONE, reply, shot, startThread, WIDE } from './lib/browser.mjs';
import { REPLY_BOX } from './lib/parts.mjs';
import { startTeam } from './lib/team.mjs';

const { server, ada } = await startTeam({ ada: { serviceWorkers: 'allow' }, bo: null });
let thread;
const theme = (name) => ada.page.evaluate((t) => (document.documentElement.dataset.theme = t), name);
/** Paths in the caches of this origin. */
const stored = () =>
  ada.page.evaluate(async () => {
    const paths = [];
    for (const name of await caches.keys())
      for (const request of await (await caches.open(name)).keys()) paths.push(new URL(request.url).pathname);
    return paths;
  });
const saved = () => ada.page.getByRole('region', { name: 'Saved in this browser' });

before(async () => {
  // without a copy of the workspace on this device (device-copy.test.mjs)
  await ada.context.addInitScript(() => localStorage.setItem('openvibe.keep', 'off'));
  await ada.page.reload();
  await ada.page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
  await startThread(ada.page, 'Before the tunnel');
  await ada.page.waitForURL('**/t/**');
  thread = new URL(ada.page.url()).pathname;
});

test('the worker is revalidated on every visit, and caches only the client', async () => {
  const answer = await fetch(`${server.base}/sw.js`);
  assert.equal(answer.headers.get('cache-control'), 'no-cache');
  assert.match(answer.headers.get('content-security-policy'), /connect-src 'self'/);
  assert.match(answer.headers.get('content-type'), /^text\/javascript/);
  const paths = await stored();
  assert.ok(paths.includes('/') && paths.some((p) => /^\/assets\/start-.*\.js$/.test(p)), paths.join());
  for (const path of paths) assert.match(path, /^\/($|theme\.js$|favicon\.svg$|assets\/)/);
});

test('a reload without a network shows unsent messages and a notice', async () => {
  await ada.context.setOffline(true);
  await ada.page.getByText('You are offline').waitFor();
  await reply(ada.page, 'First from the tunnel');
  await reply(ada.page, 'Second from the tunnel');
  await ada.page.getByText('Waiting to send').nth(1).waitFor();
  await box(ada.page, REPLY_BOX).fill('Half a thought');
  await ada.page.reload();
  await ada.page.getByText(/You are offline\.|The server cannot be reached\./).waitFor();
  await saved()
    .getByText('2 messages are saved in this browser and will be sent when you’re back online.')
    .waitFor();
  await saved().getByText('First from the tunnel').waitFor();
  await saved().getByText('Second from the tunnel').waitFor();
  await saved().getByText('Half a thought').waitFor();
  await accessible(ada.page, 'the client without a network');
  await shot(ada.page, '120-offline-dark');
  await theme('light');
  await shot(ada.page, '120-offline-light');
  await ada.page.setViewportSize(PHONE);
  await accessible(ada.page, 'the client without a network at 390 px');
  await shot(ada.page, '120-offline-390-light');
  await theme('dark');
  await shot(ada.page, '120-offline-390-dark');
  await ada.page.setViewportSize(WIDE);
});

test('API requests, the API reference, and unknown files are never served from the cache', async () => {
  for (const path of ['/v1/auth/me', '/docs', '/healthz']) {
    const answered = await ada.page.evaluate(
      (p) =>
        fetch(p).then(
          () => true,
          () => false,
        ),
      path,
    );
    assert.equal(answered, false, path);
  }
});

test('back online, the same page continues by itself: the messages are sent once, and the draft is kept', async () => {
  await ada.context.setOffline(false);
  await ada.page.locator('article[data-seq]').filter({ hasText: 'Second from the tunnel' }).waitFor();
  assert.equal(await box(ada.page, REPLY_BOX).inputValue(), 'Half a thought');
  const contents = await ada.page.evaluate(async (id) => {
    const { data } = await (await fetch(`/v1/threads/${id}/messages`)).json();
    return data.map((m) => m.content);
  }, thread.split('/').at(-1));
  assert.deepEqual(contents, ['Before the tunnel', 'First from the tunnel', 'Second from the tunnel']);
  assert.equal(await message(ada.page, 'First from the tunnel').count(), 1);
});

test('after signing out, the caches and the offline page contain no personal data', async () => {
  await ada.page.goto('/northwind/settings/profile');
  await button(ada.page, 'Sign out').last().click();
  await button(ada.page, 'Sign in').waitFor();
  for (const path of await stored()) assert.match(path, /^\/($|theme\.js$|favicon\.svg$|assets\/)/);
  await ada.context.setOffline(true);
  await ada.page.reload();
  await ada.page.getByText(/You are offline\.|The server cannot be reached\./).waitFor();
  assert.equal(await saved().count(), 0);
  await ada.context.setOffline(false);
  await button(ada.page, 'Sign in').waitFor();
});

test('no page logged an error', () => {
  assert.deepEqual(ada.errors, []);
});
