// A proxy that does not forward WebSockets: people read and write, and learn what is wrong.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { box, button, message, person, reply, startThread } from './lib/browser.mjs';
import { inspect, REPLY_BOX } from './lib/parts.mjs';
import { Proxy } from './lib/proxy.mjs';
import { startTeam } from './lib/team.mjs';

const { server, browser, ada, bo } = await startTeam();
const proxy = await new Proxy(server.base).start();
const BLOCKED = 'Live updates do not get through to this server. New messages appear every few seconds.';
const ADVICE = 'Its proxy must forward WebSockets: docs/operations.md';
let eve;
let path;

before(async () => {
  await startThread(bo.page, 'Does the proxy work?');
  path = new URL(bo.page.url()).pathname;
  eve = await person(browser, proxy.base);
  await eve.context.addCookies(await ada.context.cookies());
});
after(() => proxy.close());

test('an admin reads what to change, and is not offline', async () => {
  await eve.page.goto(path);
  await eve.page.getByText(BLOCKED).waitFor();
  await eve.page.getByText(ADVICE).waitFor();
  assert.equal(await eve.page.getByText(/You are offline|Cannot reach/).count(), 0);
  await inspect(eve, 'net-blocked');
});

test('messages are sent and appear in both directions', async () => {
  await box(eve.page, REPLY_BOX).waitFor();
  await reply(eve.page, 'I can write.');
  await message(bo.page, 'I can write.').waitFor();
  await reply(bo.page, 'And I can answer.');
  await message(eve.page, 'And I can answer.').waitFor();
});

test('once the proxy forwards WebSockets, the bar disappears', async () => {
  proxy.forwards = true;
  await button(eve.page, 'Retry now').click();
  await eve.page.getByText(BLOCKED).waitFor({ state: 'detached' });
  await reply(bo.page, 'Live again.');
  await message(eve.page, 'Live again.').waitFor();
  assert.deepEqual(eve.errors, []);
});
