import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { accessible, button, launch, message, person, setUp, shot, startThread } from './lib/browser.mjs';
import { hostile } from './lib/hostile.mjs';
import { Server } from './lib/server.mjs';

let server;
let browser;
let ada;

before(async () => {
  server = await new Server().start();
  browser = await launch();
  ada = await person(browser, server.base);
  await setUp(ada.page);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test('a thread with a hostile message stays readable, live and after a reload', async () => {
  await startThread(ada.page, 'Hostile text');
  const { page } = ada;
  const messages = hostile(10 * 1024).filter(({ text }) => text.trim());
  assert.ok(messages.length >= 60);
  const home = new URL(page.url()).pathname.replace(/[^/]+$/, '');
  for (const { name, text } of messages) {
    const thread = await page.evaluate(async (content) => {
      const send = async (url, content) => {
        const body = JSON.stringify({ content });
        const r = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
        if (!r.ok) throw new Error(`${r.status} ${await r.text()}`);
        return r.json();
      };
      const here = `/v1/threads/${location.pathname.split('/').at(-1)}`;
      const { channel_id } = await (await fetch(here)).json();
      await send(`${here}/messages`, content); // live
      await send(`${here}/messages`, 'Still readable.');
      const { thread } = await send(`/v1/channels/${channel_id}/threads`, content);
      await send(`/v1/threads/${thread.id}/messages`, 'Still readable.');
      return thread.id;
    }, text);
    await message(page, 'Still readable.').last().waitFor();
    await page.goto(`${home}${thread}`); // stored; the next message arrives live
    await message(page, 'Still readable.').first().waitFor();
    assert.equal(await page.getByText('Something went wrong').count(), 0, name);
  }
});

test('common Markdown is rendered as intended', async () => {
  const { page } = ada;
  await page
    .getByRole('link', { name: /general/ })
    .first()
    .click();
  const code = Array.from({ length: 60 }, (_, n) => `let line${n} = ${n};`).join('\n');
  await startThread(
    page,
    `# First :tada:\n\n## Second\n\n### Third\n\n- [x] done\n- [ ] open\n\n| Name | Count |\n|:--|--:|\n| ${'a wide cell '.repeat(4)} | 12 |\n\n${'*a_'.repeat(300)}\n\n\`\`\`js\n${code}\n\`\`\``,
  );
  const body = page.getByRole('article').first();
  await body.getByText('First 🎉').waitFor();
  await body.getByText('Shown as plain text').waitFor();
  await shot(page, 'markdown-dark');
  await button(page, 'Show all 60 lines').click();
  await button(page, 'Show less').waitFor();
  await button(page, 'Show less').click();
  await accessible(page, 'Markdown');
  await page.evaluate(() => (document.documentElement.dataset.theme = 'light'));
  await page.setViewportSize({ width: 390, height: 844 });
  await shot(page, 'markdown-light-narrow');
});

test('no page logged an error', () => {
  assert.deepEqual(ada.errors, []);
});
