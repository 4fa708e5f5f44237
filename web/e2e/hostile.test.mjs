import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, button, message, PHONE, shot, startThread } from './lib/browser.mjs';
import { hostile } from './lib/hostile.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada } = await startTeam({ bo: null });

test('a thread with a hostile message stays readable, live and after a reload', async () => {
  await startThread(ada.page, 'Hostile text');
  const { page } = ada;
  const messages = hostile(10 * 1024).filter(({ text }) => text.trim());
  assert.ok(messages.length >= 60);
  const home = new URL(page.url()).pathname.replace(/[^/]+$/, '');
  const { channel_id } = await api(ada, 'GET', `threads/${page.url().split('/').at(-1)}`);
  const send = (path, content) => api(ada, 'POST', path, { content });
  // A text that shows nothing is refused, so it gets a last line.
  const sendShown = (path, text) =>
    send(path, text).catch((e) => {
      if (!e.message.includes('the message is blank')) throw e;
      return send(path, `${text}\n\nEnd.`);
    });
  const readable = async (name, text) => {
    await message(page, text).waitFor();
    assert.equal(await page.getByText('Something went wrong').count(), 0, `${name}: ${text}`);
  };
  // Each text arrives live in the thread that the previous one started.
  for (const [i, { name, text }] of messages.entries()) {
    const open = `threads/${page.url().split('/').at(-1)}/messages`;
    await sendShown(open, text);
    await send(open, `Readable live, ${i}.`);
    await readable(name, `Readable live, ${i}.`);
    const { thread } = await sendShown(`channels/${channel_id}/threads`, text);
    await send(`threads/${thread.id}/messages`, `Readable when stored, ${i}.`);
    await page.goto(`${home}${thread.id}`);
    await readable(name, `Readable when stored, ${i}.`);
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
  await page.setViewportSize(PHONE);
  await shot(page, 'markdown-light-narrow');
});

test('no page logged an error', () => {
  assert.deepEqual(ada.errors, []);
});
