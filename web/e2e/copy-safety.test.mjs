// The copy on this device shows nothing that its person may no longer see, and never acts for another person.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { box, button, message, person, reply, startThread } from './lib/browser.mjs';
import { crash, databases, stored, until } from './lib/copy.mjs';
import { main, side } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { server, browser, ada, bo } = await startTeam({
  ada: { serviceWorkers: 'allow', keep: 'on' },
  bo: { keep: 'on' },
});
let thread, id;
const newPage = async (p) => {
  p.page = await p.context.newPage();
  p.page.setDefaultTimeout(60_000);
  p.page.on('pageerror', (e) => p.errors.push(e.message));
};
const texts = async () => (await api(bo, 'GET', `threads/${id}/messages`)).data.map((m) => m.content);

before(async () => {
  await ada.page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
  await startThread(ada.page, 'In public');
  await ada.page.waitForURL('**/t/**');
  thread = new URL(ada.page.url()).pathname;
  id = thread.split('/').at(-1);
});

test('what was edited, deleted, or made private meanwhile leaves the copy with the next start', async () => {
  const { member } = await known(bo);
  const post = async (content) => (await api(bo, 'POST', `threads/${id}/messages`, { content })).message;
  const edited = await post('The code is 1234');
  const deleted = await post('Forget this at once');
  const secret = await api(bo, 'POST', 'channels', { name: 'secret', private: true });
  const userId = member('Ada Lindholm').user_id;
  await api(bo, 'POST', `channels/${secret.id}/members`, { user_id: userId });
  const { thread: plan } = await api(bo, 'POST', `channels/${secret.id}/threads`, {
    content: `@${member('Ada Lindholm').handle} the secret plan`,
  });
  await ada.page.goto(`/northwind/c/secret/t/${plan.id}`);
  await message(ada.page, 'the secret plan').waitFor();
  await until(async () => (await stored(ada.page))?.texts.join().includes('the secret plan'));
  await ada.page.goto(thread);
  await message(ada.page, 'Forget this at once').waitFor();
  await until(async () => {
    const { texts = [], items = [] } = (await stored(ada.page)) ?? {};
    return (
      /1234.*Forget this/.test(texts.join()) && [texts, items].every((of) => /secret plan/.test(of.join()))
    );
  });
  await ada.page.close();
  await api(bo, 'PATCH', `messages/${edited.id}`, { content: 'The code is gone' });
  await api(bo, 'DELETE', `messages/${deleted.id}`);
  await api(bo, 'DELETE', `channels/${secret.id}/members/${userId}`);
  await newPage(ada);
  await ada.page.goto(thread);
  await message(ada.page, 'The code is gone').waitFor();
  assert.equal(await ada.page.getByText('The code is 1234').count(), 0);
  await until(async () => {
    const { everything } = await stored(ada.page);
    return !/1234|Forget this|secret/.test(everything);
  });
  assert.equal(await side(ada).getByText('secret').count(), 0);
});

test('two windows show and send everything once, also if the one that sends is closed', async () => {
  const second = await ada.context.newPage();
  await second.goto(thread);
  await message(second, 'In public').waitFor();
  await ada.context.setOffline(true);
  for (const page of [ada.page, second]) await page.getByText('You are offline').waitFor();
  await reply(ada.page, 'From the first window');
  await reply(second, 'From the second window');
  for (const page of [ada.page, second])
    for (const text of ['From the first window', 'From the second window'])
      await message(page, text).waitFor();
  await ada.page.close();
  await ada.context.setOffline(false);
  ada.page = second;
  await until(async () => (await texts()).length === 5);
  await until(async () => (await stored(second)).texts.includes('From the second window'));
  assert.deepEqual((await texts()).slice(3), ['From the first window', 'From the second window']);
  assert.equal(await message(second, 'From the first window').count(), 1);
  const copy = (await stored(second)).texts;
  assert.deepEqual([...new Set(copy)], copy);
});

test('a full storage stops neither messages nor starts', async () => {
  await ada.page.evaluate(() => localStorage.setItem('full', 'yes'));
  await ada.page.addInitScript(() => {
    const { transaction } = IDBDatabase.prototype;
    IDBDatabase.prototype.transaction = function (...of) {
      const made = transaction.apply(this, of);
      if (of[1] === 'readwrite' && localStorage.getItem('full')) queueMicrotask(() => made.abort());
      return made;
    };
  });
  await ada.page.reload();
  await message(ada.page, 'From the second window').waitFor();
  await reply(ada.page, 'Beyond the quota');
  await until(async () => (await texts()).includes('Beyond the quota'));
  await ada.page.reload();
  await message(ada.page, 'Beyond the quota').waitFor();
  assert.equal(await message(ada.page, 'Beyond the quota').count(), 1);
  assert.ok(!(await stored(ada.page)).texts.includes('Beyond the quota'));
  await ada.page.evaluate(() => localStorage.removeItem('full'));
  await ada.page.reload();
  await until(async () => (await stored(ada.page)).texts.includes('Beyond the quota'));
});

test('a browser that crashes while it writes the copy starts with a whole one', async () => {
  for (let n = 1; n <= 3; n++) {
    await Promise.all(
      [1, 2, 3].map((m) => api(bo, 'POST', `threads/${id}/messages`, { content: `Crash ${n}.${m}` })),
    );
    await message(ada.page, `Crash ${n}.3`).waitFor();
    await ada.page.evaluate(() => dispatchEvent(new Event('offline'))); // writes now
    await crash(ada);
    await newPage(ada);
    await ada.page.goto(thread);
    await message(ada.page, `Crash ${n}.3`).waitFor();
  }
  const shown = await ada.page
    .locator('article[data-seq]')
    .evaluateAll((all) => all.map((e) => Number(e.dataset.seq)));
  assert.deepEqual(
    [...new Set(shown)].sort((a, b) => a - b),
    shown,
  );
  await until(async () => (await stored(ada.page)).texts.includes('Crash 3.3'));
});

test('a person who takes over the browser gets nothing of the other one, and sends nothing for them', async () => {
  const mine = (await stored(ada.page)).user;
  await ada.context.setOffline(true);
  await ada.page.getByText('You are offline').waitFor();
  await reply(ada.page, 'Only Ada may send this');
  await ada.page.getByText('Waiting to send').waitFor();
  await crash(ada);
  const cookies = await ada.context.cookies();
  await ada.context.setOffline(false);
  await ada.context.clearCookies();
  await ada.context.addCookies((await bo.context.storageState()).cookies); // as by a link
  await newPage(ada);
  await ada.page.goto(thread);
  await until(async () => {
    const all = await databases(ada.page);
    return all.length === 1 && !all[0].includes(mine);
  });
  await main(ada).getByText('In public').first().waitFor();
  assert.equal(await message(ada.page, 'Only Ada may send this').count(), 0);
  assert.ok(!(await texts()).includes('Only Ada may send this'));
  await ada.page.close();
  await ada.context.clearCookies();
  await ada.context.addCookies(cookies);
  await newPage(ada);
  await ada.page.goto(thread);
  await until(async () => (await texts()).includes('Only Ada may send this'));
  await until(async () => (await stored(ada.page))?.user === mine);
});

test('a session that was revoked meanwhile takes its copy along, but not the unsent message', async () => {
  await until(async () => (await stored(ada.page)).texts.includes('Only Ada may send this'));
  await ada.context.setOffline(true);
  await ada.page.getByText('You are offline').waitFor();
  await reply(ada.page, 'Written too late');
  await ada.page.getByText('Waiting to send').waitFor();
  await crash(ada);
  await newPage(ada);
  await ada.page.goto(thread);
  await message(ada.page, 'Written too late').waitFor();
  const elsewhere = await person(browser, server.base);
  await elsewhere.context.addCookies(await ada.context.cookies());
  await elsewhere.page.goto('/');
  await api(elsewhere, 'POST', 'auth/logout');
  await elsewhere.close();
  await ada.context.setOffline(false);
  await button(ada.page, 'Sign in').waitFor();
  await until(async () => (await databases(ada.page)).length === 0);
  assert.ok(!(await texts()).includes('Written too late'));
  await box(ada.page, 'Email').fill('ada@example.com');
});

test('no page logged an error', () => assert.deepEqual([...ada.errors, ...bo.errors], []));
