// Writing: links and code in the composer, commands of the switcher, and links to messages.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, button, message, shot, startThread } from './lib/browser.mjs';
import { until } from './lib/copy.mjs';
import { composer, main, option } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { server, ada, bo } = await startTeam();
const { page } = ada;
const typed = () => composer(ada).inputValue();
const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
const paste = async (text) => {
  await page.evaluate((t) => navigator.clipboard.writeText(t), text);
  await page.keyboard.press('Control+v');
};
/** Copies the address of a message with its menu. */
const copyLink = async (text) => {
  const row = message(page, text).first();
  await row.hover();
  await page.evaluate(() => navigator.clipboard.writeText(''));
  await row.getByRole('button', { name: 'Copy link' }).click();
  await until(async () => (await clipboard()).includes('/m/'));
  return clipboard();
};

await startThread(page, 'Where do we write?');
const thread = new URL(page.url()).pathname;

test('Ctrl-K makes a link of a selection, and opens the switcher without one', async () => {
  await composer(ada).fill('the plan');
  await page.keyboard.press('Control+a');
  await page.keyboard.press('Control+k');
  assert.equal(await typed(), '[the plan]()');
  await page.keyboard.type('https://example.com');
  assert.equal(await typed(), '[the plan](https://example.com)');
  await page.keyboard.press('Control+k');
  await page.getByRole('dialog', { name: 'Jump to' }).waitFor();
  await page.keyboard.press('Escape');
  await composer(ada).fill('');
});

test('pasted code can become a block, prose not, and Ctrl-Z takes one step back', async () => {
  await composer(ada).focus();
  await paste('fn main() {\n    run();\n}');
  await button(page, 'Paste as code').click();
  assert.equal(await typed(), '```\nfn main() {\n    run();\n}\n```\n');
  await page.keyboard.press('Control+z');
  assert.equal(await typed(), 'fn main() {\n    run();\n}');
  await composer(ada).fill('');
  await paste('We meet on Friday.\nBring the plan.\nBo writes it.');
  assert.equal(await button(page, 'Paste as code').count(), 0);
  await composer(ada).fill('');
});

test('a completed name can be undone', async () => {
  await composer(ada).pressSequentially('hello @bo');
  await option(ada, /Bo Chen/).waitFor();
  await page.keyboard.press('Tab');
  assert.match(await typed(), /^hello @bo-chen $/);
  await page.keyboard.press('Control+z');
  assert.equal(await typed(), 'hello @bo');
  await composer(ada).fill('');
});

test('the switcher lists commands and the pages of settings', async () => {
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: /^Jump to/ }).fill('>');
  await option(ada, /^New thread/).waitFor();
  await accessible(page, 'the commands of the switcher');
  await shot(page, '44-switcher-commands-dark');
  await page.getByRole('combobox', { name: /^Jump to/ }).fill('>audit');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/settings/audit');
  await page.goBack();
  await composer(ada).waitFor();
});

test('the link of a message survives a rename of its channel, and old links still work', async () => {
  const link = await copyLink('Where do we write?');
  assert.match(new URL(link).pathname, /^\/northwind\/m\/msg_\w+$/);
  await api(ada, 'POST', 'channels', { name: 'drawing-room' });
  const id = (await known(ada)).channelId('drawing-room');
  const posted = await api(ada, 'POST', `channels/${id}/threads`, { content: 'In the drawing room' });
  const old = `/northwind/c/drawing-room/t/${posted.thread.id}#m-${posted.message.id}`;
  await page.goto(old);
  await message(page, 'In the drawing room').waitFor();
  const moved = new URL(await copyLink('In the drawing room')).pathname;
  await api(ada, 'PATCH', `channels/${id}`, { name: 'library' });
  await page.goto(moved);
  await page.waitForURL(`**/northwind/c/library/t/${posted.thread.id}#m-${posted.message.id}`);
  await message(page, 'In the drawing room').waitFor();
  await page.goto(new URL(link).pathname);
  await page.waitForURL(`**${thread}#m-*`);
  await page.goto('/northwind/m/msg_00000000000000000000000000');
  await main(ada).getByRole('heading', { name: 'Message not found' }).waitFor();
  await accessible(page, 'a missing message');
});

test('a link alone on a line shows a quote, only to people who can read the message', async () => {
  const secret = await api(ada, 'POST', 'channels', { name: 'board', private: true });
  const hidden = await api(ada, 'POST', `channels/${secret.id}/threads`, { content: 'A bonus of 400' });
  await page.goto(thread);
  await message(page, 'Where do we write?').waitFor();
  const shown = await copyLink('Where do we write?');
  const { channelId } = await known(ada);
  const other = await api(ada, 'POST', `channels/${channelId('random')}/threads`, {
    content: `Two links\n\n${shown}\n\n${server.base}/northwind/m/${hidden.message.id}\n\nin a sentence: ${shown}`,
  });
  const path = `/northwind/c/random/t/${other.thread.id}`;
  await page.goto(path);
  const quotes = (p) => p.page.getByRole('figure', { name: 'Quoted message' });
  await quotes(ada).nth(1).waitFor();
  assert.match(await quotes(ada).first().innerText(), /Ada Lindholm in #general[^]*Where do we write\?/);
  assert.match(await quotes(ada).nth(1).innerText(), /A bonus of 400/);
  await accessible(page, 'quotes of messages');
  await shot(page, '45-quotes-dark');
  await bo.page.goto(path);
  await quotes(bo).first().waitFor();
  await bo.page.waitForLoadState('networkidle');
  assert.equal(await quotes(bo).count(), 1);
  assert.equal(await bo.page.getByText('A bonus of 400').count(), 0);
  await quotes(bo).first().getByRole('link').click();
  await bo.page.waitForURL(`**${thread}#m-*`);
  await bo.page.goto(path);
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
