// Writing and reading texts: links and code in the composer, commands, links to messages, long messages, formulas.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, button, fits, message, reply, shot, startThread } from './lib/browser.mjs';
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
    content: `Two links\n${shown}\n${server.base}/northwind/m/${hidden.message.id}\nin a sentence: ${shown}`,
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

test('a long message is folded, except for a link to it', async () => {
  await page.goto(thread);
  await composer(ada).waitFor();
  const lines = Array.from({ length: 90 }, (_, n) => `line ${n} of a long message`);
  await reply(page, lines.join('\n'));
  await reply(page, 'After the long one');
  await message(page, 'After the long one').waitFor();
  await page.reload();
  const long = message(page, 'line 0 of').locator('.prose');
  await button(page, 'Show more').waitFor();
  assert.ok((await long.boundingBox()).height <= 481);
  await accessible(page, 'a folded message');
  await shot(page, '46-folded-dark');
  await button(page, 'Show more').click();
  await page.waitForFunction(() => !document.querySelector('.prose.folded'));
  assert.ok((await long.boundingBox()).height > 1350);
  assert.match(
    await page.evaluate(() => document.activeElement.id),
    /^m-msg_/,
    'the focus stays in the message',
  );
  await page.reload();
  await button(page, 'Show more').waitFor();
  const row = await message(page, 'line 0 of').getAttribute('id');
  await page.goto(`/northwind/m/${row.slice(2)}`);
  await page.waitForURL(`**#${row}`);
  await message(page, 'line 0 of').waitFor();
  await page.waitForFunction(() => !document.querySelector('.prose.folded'));
  assert.ok((await long.boundingBox()).height > 1350);
});

test('formulas are drawn, and what cannot be drawn stays as typed', async () => {
  await page.goto(thread);
  await composer(ada).waitFor();
  const text = [
    'Inline \\(a_1^2 + b\\) and $$E = mc^2$$',
    '',
    '\\[\n\\frac{a}{b} = \\sqrt{x}\n\\]',
    '',
    '```math\n\\sum_{n=1}^{9} n\n```',
    '',
    'Broken $$\\frac{a$$, a link \\(\\href{https://a.example}{x}\\), in code `$$x$$`, and $5 and $6.',
  ].join('\n');
  await reply(page, text);
  const row = message(page, 'Broken');
  await row.locator('math').nth(3).waitFor();
  assert.equal(await row.locator('math').count(), 4);
  assert.equal(await row.locator('math msub, math msubsup').count(), 1);
  assert.equal(await row.locator('math [href], math [style], math [class]').count(), 0);
  const shown = await row.innerText();
  for (const kept of ['$$\\frac{a$$', '\\(\\href{https://a.example}{x}\\)', '$$x$$', '$5 and $6'])
    assert.ok(shown.includes(kept), kept);
  await page.mouse.move(0, 0);
  await accessible(page, 'formulas');
  await shot(page, '47-formulas-dark');
  await page.setViewportSize({ width: 320, height: 700 });
  await fits(page, 'formulas at 320 px');
  await page.setViewportSize({ width: 1440, height: 900 });
  // Formulas of a row that is mounted again, and of an edited text.
  const id = (await row.getAttribute('id')).slice(2);
  await api(ada, 'PATCH', `messages/${id}`, { content: 'Broken, now only \\(x + y\\)' });
  await page.waitForFunction((m) => document.querySelectorAll(`#m-${m} math`).length === 1, id);
});

test('a formula that takes too long stays as typed, and the page stays usable', async () => {
  const slow = `$$${'\\sqrt{'.repeat(150)}x${'}'.repeat(150)}${'\\begin{matrix}a&b\\\\c&d\\end{matrix}'.repeat(60)}$$`;
  const started = Date.now();
  await reply(page, `Heavy ${slow}`);
  await reply(page, 'Light \\(z\\)');
  await message(page, 'Light').locator('math').waitFor();
  assert.ok(Date.now() - started < 15_000);
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
