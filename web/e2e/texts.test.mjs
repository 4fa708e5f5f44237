// Reading: long messages, formulas, pictures of people, and keys without a modifier.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, button, fits, message, reply, shot, startThread } from './lib/browser.mjs';
import { until } from './lib/copy.mjs';
import { composer, main, side } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam();
const { page } = ada;

await startThread(page, 'Where do we read?');
const thread = new URL(page.url()).pathname;

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

test('a picture is cropped, shown to others, and removed', async () => {
  await page.goto('/northwind/settings/profile');
  const canvas = await page.evaluate(() => {
    const canvas = document.createElement('canvas');
    canvas.width = 900;
    canvas.height = 400;
    const context = canvas.getContext('2d');
    context.fillStyle = '#0a7';
    context.fillRect(0, 0, 900, 400);
    return canvas.toDataURL('image/png').split(',')[1];
  });
  const file = { name: 'me.png', mimeType: 'image/png', buffer: Buffer.from(canvas, 'base64') };
  await page.locator('input[type=file]').setInputFiles(file);
  await button(page, 'Remove picture').waitFor();
  await accessible(page, 'a profile with a picture');
  await shot(page, '48-picture-dark');
  const url = await main(ada).locator('img').first().getAttribute('src');
  const { width, height, content_type } = await api(ada, 'GET', `${url.slice(4)}/metadata`);
  assert.deepEqual([width, height, content_type], [256, 256, 'image/webp']);
  await bo.page.goto(thread);
  const face = bo.page.locator(`main article img[src="${url}"]`).first();
  await face.waitFor();
  await until(async () => (await face.evaluate((img) => img.naturalWidth)) === 256);
  await button(page, 'Remove picture').click();
  await button(page, 'Remove picture').waitFor({ state: 'detached' });
  await face.waitFor({ state: 'detached' });
});

test('single keys can be switched off', async () => {
  await page.goto('/northwind/settings/profile');
  const choice = page.getByRole('group', { name: 'Single-key shortcuts' });
  await choice.getByRole('button', { name: 'Off' }).click();
  await page.goto(thread);
  await composer(ada).waitFor();
  await page.waitForLoadState('networkidle');
  await page.keyboard.press('i');
  await page.keyboard.press('?');
  assert.equal(await page.getByRole('dialog').count(), 0);
  assert.equal(new URL(page.url()).pathname, thread);
  await page.keyboard.press('Control+k');
  await page.getByRole('dialog', { name: 'Jump to' }).waitFor();
  await page.keyboard.press('Escape');
  await page.goto('/northwind/settings/profile');
  await choice.getByRole('button', { name: 'On' }).click();
  await page.keyboard.press('i');
  await page.waitForURL('**/inbox');
});

test('a page that a link opens focuses its heading', async () => {
  await side(ada).getByRole('link', { name: 'Action items' }).click();
  await main(ada).getByRole('heading', { name: 'Action items', level: 1 }).waitFor();
  await until(() => page.evaluate(() => document.activeElement.textContent === 'Action items'));
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
