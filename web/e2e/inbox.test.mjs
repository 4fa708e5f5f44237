// The inbox: rows, keys, undo, the conversation beside the list, saved messages, and two windows of one person.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, box, button, message, person, PHONE, WIDE } from './lib/browser.mjs';
import { composer, dialog, inspect as inspectWide, main, messageList, pictures, side } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { server, browser, ada, bo } = await startTeam({
  ada: { layout: 'split', keep: 'on' },
  bo: { keep: 'on' },
});
const { channelId, member } = await known(bo);
const general = channelId('general');
const handle = member('Ada Lindholm').handle;
const post = (path, content, p) => api(p, 'POST', path, { content, client_id: crypto.randomUUID() });
const start = async (title, p = ada) => (await post(`channels/${general}/threads`, title, p)).thread.id;
const say = (thread, content, p = bo) => post(`threads/${thread}/messages`, content, p);

const inbox = (p) => main(p).getByRole('region', { name: 'Inbox', exact: true });
const rows = (p) => inbox(p).locator('[data-item]');
const row = (p, name) => inbox(p).getByRole('link', { name });
const status = (p) => p.page.getByRole('status').filter({ hasText: /./ });
const caughtUp = (p) => inbox(p).getByText('You’re caught up.');
const focused = (p) =>
  p.page.evaluate(() => document.activeElement?.querySelector('.visually-hidden')?.textContent ?? '');
const names = (p) =>
  rows(p).evaluateAll((all) => all.map((a) => a.querySelector('.visually-hidden').textContent));
const press = (p, ...keys) =>
  keys.reduce((done, key) => done.then(() => p.page.keyboard.press(key)), Promise.resolve());
const open = async (p) => {
  await p.page.goto('/northwind/inbox');
  await inbox(p).waitFor();
};
const tab = (p, name) =>
  inbox(p).getByRole('group', { name: 'Show' }).getByRole('button', { name, exact: true }).click();
const until = async (check, what) => {
  const end = Date.now() + 15_000;
  while (!(await check())) {
    assert.ok(Date.now() < end, what);
    await new Promise((done) => setTimeout(done, 20));
  }
};
/** Checks a screen at three widths; at 900 px, the list is alone. */
const inspect = async (p, name) => {
  await p.page.setViewportSize({ width: 900, height: 844 });
  await accessible(p.page, `${name}, 900`);
  await pictures(p, `${name}-900`);
  await inspectWide(p, name);
};
/** Address of the marker of the thread for the whole channel. */
let lunchMarker;
/** A second window of Ada. */
const second = async () => {
  const p = await person(browser, server.base, { layout: 'split', keep: 'on' });
  await p.context.addCookies((await ada.context.storageState()).cookies);
  return p;
};

test('an empty inbox', async () => {
  await open(ada);
  await caughtUp(ada).waitFor();
  await main(ada).getByRole('heading', { name: 'Inbox', level: 1 }).waitFor();
  await tab(ada, 'Later');
  await inbox(ada).getByText('Nothing saved or postponed.').waitFor();
  await inspect(ada, 'inbox-empty');
  await tab(ada, 'Open');
});

test('200 unread messages in 30 threads are done with at most 3 keys for each, in two windows', async () => {
  const threads = [];
  for (let n = 1; n <= 30; n++) threads.push(await start(`Thread ${n}`));
  await Promise.all(
    threads.map(async (thread, at) => {
      const count = at < 20 ? 7 : 6;
      for (let n = 1; n <= count; n++) {
        const asks = at % 6 === 0 && n === (at ? count : 3);
        await say(thread, asks ? `@${handle} can you check this?` : `Reply ${n}`);
      }
    }),
  );
  const { open: all } = await api(ada, 'GET', 'inbox');
  assert.equal(all, 30);
  await open(ada);
  const other = await second();
  await open(other);
  for (const p of [ada, other]) await until(async () => (await rows(p).count()) === 30, '30 rows');
  await side(ada)
    .getByRole('link', { name: /^Inbox 30 open/ })
    .waitFor();
  assert.equal(
    (await names(ada)).filter((name) => name.startsWith('Asked you, Bo Chen in #general, Thread')).length,
    5,
  );
  await inspect(ada, 'inbox-list');
  await other.page.bringToFront();
  await ada.page.bringToFront();

  let keys = 0;
  const key = async (name) => {
    keys++;
    await ada.page.keyboard.press(name);
  };
  await key('j');
  for (let n = 0; n < 10; n++) await key('e');
  await until(async () => (await rows(ada).count()) === 20, 'ten rows are done');
  const half = Date.now();
  const wanted = JSON.stringify(await names(ada));
  await until(async () => JSON.stringify(await names(other)) === wanted, 'the second window is equal');
  assert.ok(Date.now() - half <= 1000, `the second window was equal after ${Date.now() - half} ms`);
  // A mention with later replies leaves them: they open again as one row.
  let end = 0;
  while ((await rows(ada).count()) || (await api(ada, 'GET', 'inbox')).open) {
    if (!(await rows(ada).count())) continue;
    if (!(await inbox(ada).locator('[aria-current="true"]').count())) await key('j');
    await key('e');
    end = Date.now();
  }
  await caughtUp(ada).waitFor();
  await caughtUp(other).waitFor();
  assert.ok(Date.now() - end <= 1000, `the second window was empty after ${Date.now() - end} ms`);
  assert.ok(keys <= 90, `${keys} keys for 30 threads`);
  await side(ada)
    .getByRole('link', { name: /^Inbox$/ })
    .waitFor();
  assert.deepEqual([ada.errors, other.errors], [[], []]);
  await other.close();
});

test('rows appear while the inbox is open, and have their reason, author, place, and text', async () => {
  const thread = await start('Offline sync');
  const came = Date.now();
  await say(thread, `@${handle} can you check this?`);
  const name = /^Asked you, Bo Chen in #general, Offline sync, @\S+ can you check this\?, \d\d:\d\d, unread$/;
  await row(ada, name).waitFor();
  assert.ok(Date.now() - came <= 1500, `the row appeared after ${Date.now() - came} ms`);
  await say(thread, `@${handle} and this`);
  await row(ada, /^Mention, Bo Chen in #general, 2 in Offline sync, /).waitFor();
  const { thread: lunch } = await post(`channels/${general}/threads`, '@channel lunch at one', bo);
  // The row of the channel would close after a second on screen, in the middle of a test.
  lunchMarker = `**/v1/threads/${lunch.id}/read`;
  await ada.page.route(lunchMarker, (route) =>
    route.fulfill({ json: { unread_count: 1, mention_count: 0 } }),
  );
  await row(ada, /^@channel, Bo Chen in #general, @channel lunch at one, \d/).waitFor();
  const direct = await api(bo, 'POST', 'direct', { member_ids: [member('Ada Lindholm').user_id] });
  await post(`channels/${direct.id}/threads`, 'Do you have ten minutes?', bo);
  await row(ada, /^Message, Bo Chen, Do you have ten minutes\?, /).waitFor();
});

test('the conversation follows the selection, and the focus stays in the list until Enter', async () => {
  await press(ada, 'j');
  assert.match(await focused(ada), /^Message, Bo Chen, /);
  await message(ada.page, 'Do you have ten minutes?').waitFor();
  assert.match(await focused(ada), /^Message, Bo Chen, /);
  // Read: the row is done, and stays until the selection moves.
  await row(ada, /^Message, Bo Chen, .*, done$/).waitFor();
  await inspect(ada, 'inbox-pane');
  await row(ada, /^Message, /).focus();
  await press(ada, 'j');
  await row(ada, /^Message, /).waitFor({ state: 'detached' });
  await press(ada, 'j');
  assert.match(await focused(ada), /2 in Offline sync/);
  await message(ada.page, 'and this').waitFor();
  await press(ada, 'Enter');
  await until(
    () => ada.page.evaluate(() => !!document.activeElement?.closest('.pane article')),
    'in the pane',
  );
  await press(ada, 'ArrowLeft');
  assert.match(await focused(ada), /2 in Offline sync/);
  await press(ada, 'r');
  await until(() => composer(ada).evaluate((e) => e === document.activeElement), 'in the composer');
  await press(ada, 'Escape');
  assert.match(await focused(ada), /2 in Offline sync/);
});

test('Ctrl-Enter sends the reply, and the row is done', async () => {
  await press(ada, 'r');
  await until(() => composer(ada).evaluate((e) => e === document.activeElement), 'in the composer');
  await ada.page.keyboard.type('I will');
  // the pane soon shows the next row
  const posted = ada.page.waitForResponse(
    (r) => r.request().method() === 'POST' && /\/v1\/threads\/[^/]+\/messages$/.test(r.url()),
  );
  await press(ada, 'Control+Enter');
  assert.ok((await posted).ok());
  await row(ada, /in Offline sync/).waitFor({ state: 'detached' });
  await status(ada).filter({ hasText: 'Done. ' }).waitFor();
  assert.match(await focused(ada), /^@channel, /);
});

test('undo, later, done for all above, and save', async () => {
  await press(ada, 'z');
  await row(ada, /2 in Offline sync/).waitFor();
  await until(async () => /2 in Offline sync/.test(await focused(ada)), 'the restored row has the focus');

  await press(ada, 'h');
  await dialog(ada)
    .getByRole('button', { name: /^Tomorrow 9:00/ })
    .waitFor();
  await accessible(ada.page, 'the dialog for later');
  await press(ada, 'ArrowDown', 'Enter');
  await dialog(ada).waitFor({ state: 'detached' });
  await row(ada, /in Offline sync/).waitFor({ state: 'detached' });
  await status(ada)
    .filter({ hasText: /^Later, .*09:00\. 1 left\./ })
    .waitFor();
  await tab(ada, 'Later');
  await row(ada, /2 in Offline sync, .*, until \w{3} 09:00/).waitFor();
  await inspect(ada, 'inbox-later');
  await tab(ada, 'Open');
  await press(ada, 'z');
  await row(ada, /2 in Offline sync/).waitFor();

  await row(ada, /^@channel/).click();
  await press(ada, 's');
  await status(ada).filter({ hasText: 'Saved under Later' }).waitFor();
  await press(ada, 'k', 'j', 'Shift+E');
  await dialog(ada).getByRole('heading', { name: 'Mark 3 as done?' }).waitFor();
  await accessible(ada.page, 'the question before many rows are done');
  await press(ada, 'Escape');
  assert.equal(await rows(ada).count(), 2);
  await press(ada, 'Shift+E', 'Enter');
  await caughtUp(ada).waitFor();
  await tab(ada, 'Done');
  await row(ada, /^@channel/).waitFor();
  await row(ada, /^@channel/).hover();
  await button(ada.page, 'Move to the inbox').first().click();
  await tab(ada, 'Open');
  await row(ada, /^@channel/).waitFor();
  await tab(ada, 'Later');
  await row(ada, /^Saved, Bo Chen in #general, /).waitFor();
  await tab(ada, 'Open');
  await ada.page.unroute(lunchMarker);
});

test('a filter shows the items with one reason', async () => {
  const thread = await start('Rate limits');
  await say(thread, 'By key');
  await row(ada, /^Reply, Bo Chen in #general, Rate limits, /).waitFor();
  await inbox(ada).getByLabel('Reason').selectOption('Replies');
  await row(ada, /^@channel/).waitFor({ state: 'detached' });
  await row(ada, /^Reply, /).waitFor();
  await inbox(ada).getByLabel('Reason').selectOption('Results');
  await button(ada.page, 'Show all reasons').click();
  await row(ada, /^@channel/).waitFor();
});

test('a message can be saved, and brought back at a time', async () => {
  await row(ada, /^Reply, .*Rate limits/).click();
  const it = message(ada.page, 'By key');
  const choose = async (name) => {
    await it.hover();
    await it.getByRole('button', { name: 'More actions' }).click();
    await ada.page.getByRole('menuitem', { name, exact: true }).click();
  };
  await choose('Save');
  await status(ada).filter({ hasText: 'Saved in your inbox, under Later' }).waitFor();
  await choose('Remind me…');
  await dialog(ada).getByRole('button', { name: 'Pick a time' }).click();
  await ada.page.getByLabel('Day and time').fill('2020-01-01T09:00');
  await dialog(ada).getByRole('button', { name: 'Set the time' }).click();
  await dialog(ada).getByText('This time is in the past').waitFor();
  await accessible(ada.page, 'the dialog with a time');
  await press(ada, 'Escape');
  await choose('Remind me…');
  await dialog(ada)
    .getByRole('button', { name: /^3 hours/ })
    .click();
  await status(ada)
    .filter({ hasText: /^You will be reminded: / })
    .waitFor();
  await tab(ada, 'Later');
  await row(ada, /^Reminder, Bo Chen in #general, Rate limits, By key, until /).waitFor();
  await tab(ada, 'Open');
});

test('without the server, the inbox says so and loads again', async () => {
  const keep = (value) => ada.page.evaluate((v) => localStorage.setItem('openvibe.keep', v), value);
  await keep('off'); // otherwise the copy would be shown
  await ada.page.route('**/v1/inbox?*', (route) => route.abort());
  await open(ada);
  await inbox(ada).getByRole('heading', { name: 'Couldn’t load your inbox.' }).waitFor();
  await inspect(ada, 'inbox-error');
  await ada.page.unroute('**/v1/inbox?*');
  await button(ada.page, 'Try again').click();
  await row(ada, /^@channel/).waitFor();
  await keep('on');
});

test('on a phone, a row opens the conversation, Back returns, and a long press shows the actions', async () => {
  const phone = await person(browser, server.base, { viewport: PHONE, touch: true });
  await phone.context.addCookies((await ada.context.storageState()).cookies);
  await open(phone);
  await row(phone, /^@channel/).tap();
  await message(phone.page, 'lunch at one').waitFor();
  assert.match(phone.page.url(), /\/c\/general\/t\/thread_\w+#m-msg_/);
  await phone.page.goBack();
  await row(phone, /^@channel/).waitFor();
  const target = row(phone, /^@channel/).locator('.title');
  await target.dispatchEvent('touchstart', { touches: [], bubbles: true }).catch(() => undefined);
  await row(phone, /^@channel/).evaluate((a) => {
    const touch = new Touch({ identifier: 1, target: a, clientX: 40, clientY: 200 });
    a.dispatchEvent(new TouchEvent('touchstart', { bubbles: true, touches: [touch] }));
  });
  await dialog(phone).getByRole('button', { name: 'Mute' }).waitFor();
  await accessible(phone.page, 'the actions of a row on a phone');
  await dialog(phone).getByRole('button', { name: 'Done' }).click();
  await row(phone, /^@channel/).waitFor({ state: 'detached' });
  assert.deepEqual(phone.errors, []);
  await phone.close();
});

test('I opens the inbox, and so does the start page after four hours', async () => {
  await ada.page.setViewportSize(WIDE);
  await ada.page.goto('/northwind/c/general');
  await box(ada.page, 'Start a thread in #general').waitFor();
  await ada.page.evaluate(() => document.activeElement?.blur());
  await press(ada, 'i');
  await inbox(ada).waitFor();
  await ada.page.goto('/northwind/c/general');
  await box(ada.page, 'Start a thread in #general').waitFor();
  await ada.page.goto('/');
  await box(ada.page, 'Start a thread in #general').waitFor();
  await ada.page.addInitScript(() => {
    if (location.pathname !== '/') return;
    for (const key of Object.keys(localStorage))
      if (key.startsWith('openvibe.seen.')) localStorage.setItem(key, `${Date.now() - 5 * 3_600_000}`);
  });
  await ada.page.goto('/');
  await inbox(ada).waitFor();
  assert.equal(await messageList(ada).count(), 0);
  assert.deepEqual([ada.errors, bo.errors], [[], []]);
});
