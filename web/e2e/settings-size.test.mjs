// What the settings pages ask of an admin of a new workspace: pages, inputs, and words. The words of notifications are not counted, and
// neither are the pages of other specifications.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { measure } from './lib/measure.mjs';
import { main } from './lib/parts.mjs';
import { startTeam } from './lib/team.mjs';

const PAGES_MAX = 16;
const OTHERS = /\/(?:security|integrations|import|export|providers)$/;
const INPUTS_MAX = 75;
const WORDS_MAX = 1500;

const { ada } = await startTeam({ bo: null });

test('the settings stay within their limits', async () => {
  const { page } = ada;
  await page.goto('/northwind/settings');
  const tabs = page.getByRole('navigation', { name: 'Settings' }).getByRole('link');
  await tabs.filter({ hasText: 'Nodes' }).waitFor();
  const links = await tabs.evaluateAll((all) => all.map((link) => link.getAttribute('href')));
  const paths = links.filter((path) => !OTHERS.test(path));
  assert.equal(links.length - paths.length, 5);
  const all = [];
  for (const path of paths) {
    await page.goto(path);
    all.push({ path, ...(await measure(main(ada).locator('.page'))) });
  }
  for (const one of all) if (one.path.endsWith('/notifications')) one.words = 0;
  const sum = (key) => all.reduce((n, one) => n + one[key], 0);
  console.log(`${paths.length} pages, ${sum('inputs')} inputs, ${sum('words')} words`);
  const text = all.map(({ path, inputs, words }) => `${path}: ${inputs} inputs, ${words} words`).join('\n');
  assert.ok(paths.length <= PAGES_MAX, text);
  assert.ok(sum('inputs') <= INPUTS_MAX, text);
  assert.ok(sum('words') <= WORDS_MAX, text);
});
