// A newcomer on a server without a model: from the account to the posted result of the example.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { button, launch, person } from './lib/browser.mjs';
import { forkPanel, threadRow } from './lib/parts.mjs';
import { Server } from './lib/server.mjs';

/** Maximum number of fields and buttons. */
const ACTIONS_MAX = 12;

const server = new Server({ OPENVIBE_EXAMPLE: 'on' });
const browser = await launch();
after(async () => {
  await browser.close();
  await server.close();
});
await server.start();
const ada = await person(browser, server.base);
const { page } = ada;

test(`the result of the example is posted with at most ${ACTIONS_MAX} actions`, async () => {
  const started = Date.now();
  await page.goto('/');
  const fields = {
    'Your name': 'Ada Lindholm',
    Email: 'ada@example.com',
    Password: 'correct horse battery',
    'Workspace name': 'Northwind',
  };
  let actions = 0;
  for (const [label, text] of Object.entries(fields)) {
    await page.getByLabel(label, { exact: true }).fill(text);
    actions++;
  }
  for (const next of [
    button(page, 'Create workspace'),
    page.getByRole('button', { name: /^(Later|Continue)$/ }),
    button(page, 'Skip'),
    threadRow(ada, 'The new price list').getByRole('link').first(),
    button(page, 'Resolve the deep dive'),
    forkPanel(ada).getByRole('button', { name: 'Post result' }),
  ]) {
    await next.click();
    actions++;
  }
  await page.getByRole('article', { name: /^Result: Let's keep the old prices/ }).waitFor();
  console.log(`${actions} actions, ${Math.round((Date.now() - started) / 1000)} s`);
  assert.ok(actions <= ACTIONS_MAX, `${actions} actions`);
  assert.deepEqual(ada.errors, []);
});
