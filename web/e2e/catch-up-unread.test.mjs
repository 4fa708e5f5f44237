// Catching up on a channel and on the inbox, and questions that nobody has answered.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, button, message, PHONE, WIDE } from './lib/browser.mjs';
import { composer, inspect, main, pictures, threadRow } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam();
const { channelId, member } = await known(bo);
const handle = member('Ada Lindholm').handle;
const MIDDLE = { width: 900, height: 844 };
const region = (p) => p.page.getByRole('region', { name: 'Catch-up', exact: true });
const group = (p, name) => region(p).getByRole('list', { name, exact: true });
const opener = (p) => button(main(p), 'Catch up').first();
const post = (p, path, content) => api(p, 'POST', path, { content, client_id: crypto.randomUUID() });
const start = async (p, title, channel = 'general') =>
  (await post(p, `channels/${channelId(channel)}/threads`, title)).thread.id;
const say = (p, thread, content) => post(p, `threads/${thread}/messages`, content);
const headings = (p) => region(p).getByRole('heading').allInnerTexts();
const threads = {};

test('nothing is offered while there is little to catch up on', async () => {
  await start(bo, 'One new thread');
  await ada.page.goto('/northwind/c/general');
  await threadRow(ada, 'One new thread').waitFor();
  assert.equal(await opener(ada).count(), 0);
  await api(ada, 'POST', `channels/${channelId('general')}/read`);
});

test('a channel with many unread messages has a line for each thread, by group', async () => {
  await ada.page.goto('/northwind/inbox');
  threads.fair = await start(bo, 'Plans for the fair');
  await say(bo, threads.fair, `@${handle} can you book the hall by Tuesday?`);
  for (let n = 1; n <= 8; n++) threads[n] = await start(bo, `Small note ${n}`);
  await ada.page.goto('/northwind/c/general');
  await opener(ada).click();
  await region(ada)
    .getByText(/^10 messages since .*\d\d:\d\d · Only you see this$/)
    .waitFor();
  assert.deepEqual(await headings(ada), ['Wants you', 'Quiet']);
  await group(ada, 'Wants you').getByText('can you book the hall by Tuesday?').waitFor();
  await group(ada, 'Wants you').getByText('Plans for the fair · 2 messages').waitFor();
  assert.equal(await group(ada, 'Quiet').getByRole('listitem').count(), 8);
  assert.equal(await opener(ada).getAttribute('aria-expanded'), 'true');
  await inspect(ada, 'catch-up-channel');
  await ada.page.setViewportSize(MIDDLE);
  await pictures(ada, 'catch-up-channel-900');
  await ada.page.setViewportSize(WIDE);
});

test('a group is marked as read, and the rest stays unread', async () => {
  await button(region(ada), 'Mark as read').last().click();
  await group(ada, 'Quiet').waitFor({ state: 'detached' });
  assert.deepEqual(await headings(ada), ['Wants you']);
  const unread = async (id) => (await api(ada, 'GET', `threads/${id}`)).unread_count;
  assert.deepEqual([await unread(threads[1]), await unread(threads.fair)], [0, 2]);
  await button(region(ada), 'Close the catch-up').click();
  await region(ada).waitFor({ state: 'detached' });
});

test('a quote goes into the composer of its thread, and the time leads to the message', async () => {
  for (let n = 1; n <= 10; n++) await say(bo, threads.fair, `Detail ${n}`);
  await ada.page.reload();
  await opener(ada).click();
  const line = group(ada, 'Wants you').getByRole('listitem').first();
  await line.getByRole('button', { name: /^Quote Bo Chen, / }).click();
  await composer(ada).waitFor();
  assert.match(await composer(ada).inputValue(), /^> \*\*Bo Chen\*\*: /);
  await composer(ada).fill('');
  await ada.page.goBack();
  await opener(ada).click();
  await line.getByRole('link').click();
  await ada.page.waitForURL(/\/t\/thread_\w+#m-msg_/);
  await message(ada.page, 'Detail 10').waitFor();
});

test('the inbox catches up on all channels, in the pane or above the list', async () => {
  for (const name of ['general', 'random']) {
    for (let n = 1; n <= 8; n++) await start(bo, `News ${n} of ${name}`, name);
  }
  await ada.page.goto('/northwind/inbox');
  await opener(ada).click();
  await group(ada, 'Quiet').getByText('#random · 1 message').first().waitFor();
  await group(ada, 'Quiet').getByText('#general · 1 message').first().waitFor();
  for (const [name, viewport] of [
    ['1440', WIDE],
    ['900', MIDDLE],
    ['390', PHONE],
  ]) {
    await ada.page.setViewportSize(viewport);
    await region(ada).waitFor();
    await accessible(ada.page, `catch-up of the inbox, ${name}`);
    await pictures(ada, `catch-up-inbox-${name}`);
  }
  await ada.page.setViewportSize(WIDE);
  await button(region(ada), 'Mark as read').last().click();
  await region(ada).getByText('Nothing is unread.').or(group(ada, 'Wants you')).first().waitFor();
  await button(region(ada), 'Close the catch-up').click();
});

test('an empty inbox lists questions that others have not answered', async () => {
  const thread = await start(ada, 'The stand');
  const { handle: his } = member('Bo Chen');
  await say(ada, thread, `@${his} can you send me the measurements?`);
  for (let open = true; open;) {
    const { data } = await api(ada, 'GET', 'inbox');
    if (data.length) await api(ada, 'PUT', 'inbox/state', { ids: data.map((i) => i.id), state: 'done' });
    open = data.length > 0;
  }
  await ada.page.goto('/northwind/inbox');
  const waiting = main(ada).getByRole('region', { name: 'Waiting on others', exact: true });
  await waiting.getByText('Bo Chen has not answered:').waitFor();
  await waiting.getByText('can you send me the measurements?').waitFor();
  await inspect(ada, 'waiting-on-others');
  await ada.page.setViewportSize(MIDDLE);
  await pictures(ada, 'waiting-on-others-900');
  await ada.page.setViewportSize(WIDE);
  await waiting.getByRole('link').click();
  await message(ada.page, 'can you send me the measurements?').waitFor();
  await ada.page.goto('/northwind/inbox');
  await waiting.waitFor();
  await say(bo, thread, 'They are in the drawing.');
  await waiting.waitFor({ state: 'detached' });
});

test('no page logged an error', () => {
  assert.deepEqual([ada.errors, bo.errors], [[], []]);
});
