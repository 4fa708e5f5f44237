// Drafts of this device: their number in the sidebar, and their page.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { box, button, message } from './lib/browser.mjs';
import { composer, forkPanel, inspect, main, side } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam();
const { channelId, member } = await known(bo);
const general = channelId('general');
const row = (name) => side(ada).getByRole('link', { name });
const items = () => main(ada).getByRole('listitem');
const titles = () => items().getByRole('heading').allInnerTexts();
const isFocused = (box) => box.evaluate((el) => el === document.activeElement);
const until = async (check) => {
  for (const end = Date.now() + 10_000; !(await check());) assert.ok(Date.now() < end, String(check));
};
let thread;

test('unsent messages of channels, threads, and deep dives are listed, newest first', async () => {
  assert.equal(await row(/^Drafts/).count(), 0);
  await ada.page.goto('/northwind/drafts');
  await main(ada).getByText('No drafts on this device.').waitFor();
  await inspect(ada, 'drafts-empty');
  ({ thread } = await api(bo, 'POST', `channels/${general}/threads`, { content: 'Plans for the fair' }));
  const dive = { message_id: thread.root_message_id, agent_id: null };
  const { fork } = await api(ada, 'POST', `threads/${thread.id}/forks`, dive);
  await ada.page.goto('/northwind/c/general');
  await box(ada.page, 'Start a thread in #general').fill('A new topic\nwith two lines');
  await row('Drafts · 1').waitFor();
  await ada.page.goto(`/northwind/c/general/t/${thread.id}`);
  await composer(ada).fill('I think that we should');
  await row('Drafts · 2').waitFor();
  await ada.page.goto(`/northwind/c/general/t/${thread.id}?panel=dive:${fork.id}`);
  await box(ada.page, 'Explore together').fill('What if');
  await row('Drafts · 3').waitFor();
  await ada.page.reload();
  await row('Drafts · 3').click();
  await until(async () => (await titles()).includes('Plans for the fair'));
  assert.equal((await titles()).length, 3);
  assert.equal((await titles())[2], '#general');
  await main(ada).getByText('Reply in #general').waitFor();
  await main(ada).getByText('Deep dive in #general').waitFor();
  await inspect(ada, 'drafts');
});

test('Open leads to the composer of the draft', async () => {
  await button(ada.page, 'Open the draft in #general').click();
  const starts = box(ada.page, 'Start a thread in #general');
  await until(() => isFocused(starts));
  assert.equal(await starts.inputValue(), 'A new topic\nwith two lines');
  await row('Drafts · 3').click();
  await items().filter({ hasText: 'What if' }).getByRole('button', { name: /^Open/ }).click();
  await forkPanel(ada).waitFor();
  await until(() => isFocused(box(ada.page, 'Explore together')));
});

test('a deleted draft can be restored', async () => {
  await row('Drafts · 3').click();
  await items()
    .filter({ hasText: 'What if' })
    .getByRole('button', { name: /^Delete/ })
    .click();
  await row('Drafts · 2').waitFor();
  await button(ada.page, 'Undo').click();
  await row('Drafts · 3').waitFor();
  assert.equal((await items().allInnerTexts())[0].includes('What if'), true, 'it keeps its time');
  await items()
    .filter({ hasText: 'What if' })
    .getByRole('button', { name: /^Delete/ })
    .click();
  await row('Drafts · 2').waitFor();
});

test('a sent message is no longer a draft, and a draft survives its conversation', async () => {
  await items().filter({ hasText: 'I think' }).getByRole('button', { name: /^Open/ }).click();
  await until(() => isFocused(composer(ada)));
  await ada.page.keyboard.press('Enter');
  await message(ada.page, 'I think that we should').waitFor();
  await row('Drafts · 1').waitFor();
  const channel = await api(bo, 'POST', 'channels', { name: 'secret', private: true });
  await api(bo, 'POST', `channels/${channel.id}/members`, { user_id: member('Ada Lindholm').user_id });
  const { thread: other } = await api(bo, 'POST', `channels/${channel.id}/threads`, { content: 'Hush' });
  await ada.page.goto(`/northwind/c/secret/t/${other.id}`);
  await composer(ada).fill('Not for long');
  await row('Drafts · 2').waitFor();
  await api(bo, 'DELETE', `channels/${channel.id}/members/${member('Ada Lindholm').user_id}`);
  await ada.page.goto('/northwind/drafts');
  const gone = items().filter({ hasText: 'Not for long' });
  await gone.getByText('no longer have access').waitFor();
  assert.equal(await gone.getByRole('button', { name: /^Open/ }).count(), 0);
});

test('a text that another app shares becomes a draft of the conversation that is picked', async () => {
  await ada.page.goto('/share?title=A%20talk&text=Worth%20reading&url=https%3A%2F%2Fexample.com%2Fa');
  await ada.page.getByRole('heading', { name: 'Send to…' }).waitFor();
  await main(ada).getByText('https://example.com/a').waitFor();
  await inspect(ada, 'share');
  await main(ada).getByRole('searchbox', { name: 'Find a conversation' }).fill('ran');
  await button(main(ada), 'general').waitFor({ state: 'detached' });
  await button(main(ada), 'random').click();
  const written = box(ada.page, 'Start a thread in #random');
  await until(() => isFocused(written));
  assert.equal(await written.inputValue(), 'A talk\nWorth reading\nhttps://example.com/a');
});

test('shortcuts of the installed app open the inbox and a new chat', async () => {
  await ada.page.goto('/?open=inbox');
  await ada.page.waitForURL('**/northwind/inbox');
  await ada.page.goto('/?open=chat');
  await until(() => isFocused(box(ada.page, 'Message Vibe')));
});

test('no page logged an error', () => assert.deepEqual([ada.errors, bo.errors], [[], []]));
