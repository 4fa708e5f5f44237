// Catching up in a thread with many new messages, and the suggestion to start a fork.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { button, message, startThread } from './lib/browser.mjs';
import { until } from './lib/copy.mjs';
import { forkPanel, inspect, main, messageList, threadId } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, bo, model } = await startTeam({ model: true });
const DECISION = 'Decision: we ship the importer to all customers on Friday, 27 November.';
const region = (p) => p.page.getByRole('region', { name: 'Catch-up', exact: true });
const suggestion = (p) => p.page.getByRole('region', { name: 'Suggestion', exact: true });
const bar = (p) => p.page.getByRole('region', { name: 'Unread messages', exact: true });
const opener = (p) => button(bar(p), 'Catch up');
const gone = (locator) => locator.waitFor({ state: 'detached' });
const say = (p, id, content) => api(p, 'POST', `threads/${id}/messages`, { content });
const started = async (text) => {
  await ada.page.goto('/northwind/c/general');
  await startThread(ada.page, text);
  return { id: threadId(ada), path: new URL(ada.page.url()).pathname };
};
/** A thread with 24 messages that Bo has not seen. */
const busy = async (text) => {
  const thread = await started(text);
  await say(ada, thread.id, DECISION);
  for (let n = 1; n < 23; n++) await say(ada, thread.id, `Row ${n} is done.`);
  return thread;
};
/** A discussion between two people about one question. */
const TALK = [
  'The importer drops rows when the file has a blank header column',
  'Is that the importer itself or the parser before it?',
  'The parser keeps the rows. The importer maps rows by header',
  'So rows with a value under the blank header vanish?',
  'Yes. The importer should name the column or refuse the file with these rows',
  'Refusing is harsh, many files have a blank header at the end of their rows',
  'Then the importer names the header and keeps the rows',
  'Would the importer show that header above the rows?',
  'It has to, otherwise the importer puts the rows nowhere',
  'And the importer on the second run, the same header and rows?',
];
const talk = async (id) => {
  for (const [n, text] of TALK.entries()) await say(n % 2 ? bo : ada, id, text);
};
const opened = async (p, path, text) => {
  await p.page.goto(path);
  await message(p.page, text).last().waitFor();
};

test('a thread with many new messages can be caught up on, and the lines lead to their messages', async () => {
  const { id, path } = await busy('The week of the importer');
  await bo.page.goto(path);
  await opener(bo).waitFor();
  assert.match(await bar(bo).innerText(), /^\d+ new messages since /);
  const before = (await api(bo, 'GET', `threads/${id}`)).last_seq;
  await opener(bo).click();
  const line = region(bo).getByRole('listitem').filter({ hasText: 'Friday' });
  await line.waitFor();
  await region(bo)
    .getByText(/^\d+ messages since .* · Only you see this$/)
    .waitFor();
  await region(bo).getByText('Summarized without a model.').waitFor();
  await region(bo).getByRole('heading', { name: 'Decided' }).waitFor();
  await inspect(bo, 'catch-up');
  await line.getByRole('link', { name: /\d\d:\d\d$/ }).click();
  await bo.page.waitForFunction(() => location.hash.startsWith('#m-'));
  await message(bo.page, DECISION).first().waitFor();
  assert.equal((await api(bo, 'GET', `threads/${id}`)).last_seq, before, 'nothing is posted');
  assert.equal(await opener(ada).count(), 0, 'the author has nothing to catch up on');
});

test('a model writes the lines for one person, and a refusal is shown', async () => {
  const { path } = await busy('The other week of the importer');
  await bo.page.goto(path);
  await opener(bo).click();
  const ask = button(region(bo), 'Write it with a model');
  await ask.click();
  await region(bo).getByRole('alert').filter({ hasText: 'The model did not answer' }).waitFor();
  model.catchUp = {
    items: [{ text: 'The importer ships on Friday', kind: 'decision', sources: ['m2', 'm1'] }],
  };
  await ask.click();
  await region(bo).getByText('Summarized by scripted-1 for you.').waitFor();
  await region(bo).getByText('The importer ships on Friday', { exact: true }).waitFor();
  await gone(ask);
  await inspect(bo, 'catch-up-model');
  await opener(bo).press('Enter');
  await gone(region(bo));
});

test('two people who are deep in one subject are offered a deep dive, once a day', async () => {
  const { id, path } = await started('A question about files');
  await talk(id);
  await suggestion(ada).getByText('Think this through in a deep dive?').waitFor();
  await inspect(ada, 'suggestion');
  await button(suggestion(ada), 'Not now').click();
  await gone(suggestion(ada));
  await opened(ada, path, TALK.at(-1));
  await messageList(ada).waitFor();
  assert.equal(await suggestion(ada).count(), 0);
  await opened(bo, path, TALK.at(-1));
  await button(suggestion(bo), 'Start').click();
  await forkPanel(bo).waitFor();
  await gone(suggestion(bo));
});

test('“Don’t suggest this” turns suggestions off until the profile turns them on', async () => {
  const { id } = await started('Another question about files');
  await talk(id);
  await button(suggestion(ada), 'Don’t suggest this').click();
  await gone(suggestion(ada));
  await until(async () => (await api(ada, 'GET', 'auth/me')).user.suggestions === false);
  await ada.page.goto('/northwind/settings/profile');
  const offer = main(ada).getByRole('switch', { name: 'Suggest deep dives' });
  await offer.waitFor();
  assert.equal(await offer.isChecked(), false);
  await offer.click();
  await until(async () => (await api(ada, 'GET', 'auth/me')).user.suggestions === true);
});

test('without a model, the button is disabled with a reason', async () => {
  const { ada: ann, bo: ben } = await startTeam();
  await ann.page.goto('/northwind/c/general');
  await startThread(ann.page, 'The week of the importer');
  const id = threadId(ann);
  await say(ann, id, DECISION);
  for (let n = 1; n < 23; n++) await say(ann, id, `Row ${n} is done.`);
  await ben.page.goto(new URL(ann.page.url()).pathname);
  await opener(ben).click();
  await region(ben).getByText('Needs a model').waitFor();
  assert.equal(await button(region(ben), 'Write it with a model').getAttribute('aria-disabled'), 'true');
  await inspect(ben, 'catch-up-offline');
  assert.deepEqual([ann.errors, ben.errors], [[], []]);
});

test('no page logged an error', () => {
  assert.deepEqual(ada.errors, []);
});
