// Sources of replies: the messages that they cite, with and without a model.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { person, reply, setUp, startThread } from './lib/browser.mjs';
import { answers, inspect } from './lib/parts.mjs';
import { Server } from './lib/server.mjs';
import { api, startTeam } from './lib/team.mjs';

const { model, browser, ada, bo } = await startTeam({ model: true, bo: { theme: 'light' } });
const NONE = 'No message supports this answer.';
const last = (p, name) => answers(p, name).last();
const sources = (p, name) => last(p, name).getByRole('list', { name: 'Sources' });
const dateFormat = new Intl.DateTimeFormat('en-US', { month: 'long', day: 'numeric' });
const dateOf = (m) => dateFormat.format(new Date(m.created_at));

/** Posts a message to #ops, which is created for it. */
async function postToOps(p, content) {
  const { id } = await api(p, 'POST', 'channels', { name: 'ops' });
  const posted = await api(p, 'POST', `channels/${id}/threads`, { content });
  return posted.message;
}
/** Follows a link with the keyboard, and waits for the message in its thread. */
async function follow(p, link, m) {
  await link.press('Enter');
  await p.page.waitForURL((url) => url.pathname.endsWith(`/c/ops/t/${m.thread_id}`));
  await p.page.locator(`#m-${m.id}`).waitFor();
}

await api(ada, 'POST', 'agents', {
  name: 'sage',
  display_name: 'Sage',
  instructions: 'You are Sage.',
  tools: [{ type: 'file_search' }],
});
const zebra = await postToOps(ada, 'The zebra budget is 40 euros, as every year.');

test('a reply of a model lists the message that it cites', async () => {
  model.calls.set('zebra budget', ['Let me look.', 'search_messages', { query: 'zebra' }]);
  model.answers.set('zebra budget', 'The zebra budget is 40 euros. [S1]');
  await startThread(bo.page, '@sage what is the zebra budget?');
  await last(bo, 'Sage')
    .getByText(/^The zebra budget is 40 euros\. \[1\]$/)
    .waitFor();
  const link = sources(bo, 'Sage').getByRole('link', {
    name: `Ada Lindholm in #ops, ${dateOf(zebra)}`,
    exact: true,
  });
  await link.waitFor();
  assert.equal(await sources(bo, 'Sage').getByRole('listitem').count(), 1);
  assert.match(await sources(bo, 'Sage').getByRole('listitem').innerText(), /^\[1\]/);
  assert.equal(await last(bo, 'Sage').getByText(NONE).count(), 0);
  await inspect(bo, 'sources');
  await follow(bo, link, zebra);
});

test('the entry of a deleted message is not a link', async () => {
  await bo.page.goBack();
  await sources(bo, 'Sage').getByRole('link').waitFor();
  await api(ada, 'DELETE', `messages/${zebra.id}`);
  await sources(bo, 'Sage').getByText('Message not available').waitFor();
  assert.equal(await sources(bo, 'Sage').getByRole('link').count(), 0);
});

test('an invented citation is removed, and the reply has a note', async () => {
  model.answers.set('unicorn', 'The unicorn costs 12 euros. [S99]');
  await bo.page.goto('/northwind/c/general');
  await startThread(bo.page, '@sage what does the unicorn cost?');
  await last(bo, 'Sage').getByText(NONE).waitFor();
  await last(bo, 'Sage').getByText('The unicorn costs 12 euros.', { exact: true }).waitFor();
  assert.equal(await sources(bo, 'Sage').count(), 0);
  await bo.page.reload();
  await last(bo, 'Sage').getByText(NONE).waitFor();
  await inspect(bo, 'sources-none');
});

test('a reply without a model lists what it quotes', async () => {
  const alone = await new Server().start();
  const eve = await person(browser, alone.base);
  try {
    await setUp(eve.page, { name: 'Eve', email: 'eve@example.com' });
    const wifi = await postToOps(eve, 'The wifi password is in the blue folder.');
    await startThread(eve.page, 'Hello everyone');
    await reply(eve.page, '@vibe where is the wifi password?');
    const name = `Eve in #ops, ${dateOf(wifi)}`;
    const link = sources(eve, 'Vibe').getByRole('link', { name, exact: true });
    await link.waitFor();
    await follow(eve, link, wifi);
    assert.deepEqual(eve.errors, []);
  } finally {
    await alone.close();
  }
});

test('no page logged an error', () => {
  assert.deepEqual(
    [ada, bo].flatMap((p) => p.errors),
    [],
  );
});
