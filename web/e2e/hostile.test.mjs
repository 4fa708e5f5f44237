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

test('a thread full of hostile messages can be read, live and after a reload', async () => {
  await startThread(ada.page, 'Hostile text');
  const { page } = ada;
  const messages = hostile(24 * 1024).filter(({ text }) => text.trim());
  assert.ok(messages.length >= 60);
  await page.evaluate(async (messages) => {
    const url = `/v1/threads/${location.pathname.split('/').at(-1)}/messages`;
    for (const content of [...messages.map((m) => m.text), 'Still readable.']) {
      const body = JSON.stringify({ content });
      const r = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
      if (!r.ok) throw new Error(`${r.status} ${await r.text()}`);
    }
  }, messages);
  await message(page, 'Still readable.').waitFor();
  await page.reload();
  const jump = button(page, 'Jump to latest');
  await message(page, 'Still readable.').or(jump).first().waitFor();
  if (await jump.isVisible()) await jump.click();
  await message(page, 'Still readable.').waitFor();
  // All of them, from the end to the beginning.
  const list = page.getByRole('region', { name: 'Messages', exact: true });
  const first = message(page, /^.{0,80}Hostile text$/s).first();
  await list.hover();
  for (let i = 0; i < 600 && !(await first.isVisible()); i++) {
    await page.mouse.wheel(0, -2500);
    await page.evaluate(() => new Promise(requestAnimationFrame));
  }
  await first.waitFor();
});

test('Markdown that people write is shown as they mean it', async () => {
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
