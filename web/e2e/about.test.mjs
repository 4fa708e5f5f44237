// Texts about people and the workspace that agents receive.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { box, button } from './lib/browser.mjs';
import { inspect, main, toast } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam({ model: true });
const SETTINGS = '/northwind/settings';
const FILE = 'members/me/files/USER.md';
const aboutYou = (p) => box(p.page, 'About you');
const preview = (p) => p.page.getByRole('region', { name: 'Preview of the text' });

test('“About you” is written, restricted, shared, and deleted', async () => {
  await ada.page.goto(`${SETTINGS}/memory`);
  await aboutYou(ada).fill('I work from Lisbon.');
  await main(ada).getByText('Nobody else sees it.').waitFor();
  await inspect(ada, 'about-you');
  await button(ada.page, 'Save text').click();
  await toast(ada, 'Saved. Agents read it from your next question on.');
  const file = await api(ada, 'GET', FILE);
  assert.deepEqual([file.content, file.visibility], ['I work from Lisbon.', 'direct']);
  await ada.page.getByLabel('Where agents read it').selectOption('Wherever I ask');
  await main(ada).getByText('Everyone who can read the conversation').waitFor();
  const saved = ada.page.waitForResponse((answer) => answer.request().method() === 'PUT');
  await button(ada.page, 'Save text').click();
  await saved;
  await ada.page.reload();
  await aboutYou(ada).waitFor();
  assert.equal(await aboutYou(ada).inputValue(), 'I work from Lisbon.');
  assert.equal((await api(ada, 'GET', FILE)).visibility, 'workspace');
  await bo.page.goto(`${SETTINGS}/memory`);
  await aboutYou(bo).waitFor();
  assert.equal(await aboutYou(bo).inputValue(), '');
});

test('a text that another window saved is not lost', async () => {
  await api(ada, 'PUT', FILE, { content: 'I work from Porto.' });
  await aboutYou(ada).fill('I work from Faro.');
  await button(ada.page, 'Save text').click();
  await main(ada)
    .getByRole('heading', { name: /^You saved version \d in the meantime/ })
    .waitFor();
  await main(ada).getByText('I work from Porto.').waitFor();
  await inspect(ada, 'about-you-conflict');
  await main(ada)
    .getByRole('group', { name: 'About you' })
    .getByRole('radio', { name: 'Yours', exact: true })
    .check();
  await button(ada.page, 'Save choices').click();
  await toast(ada, 'Saved');
  assert.equal((await api(ada, 'GET', FILE)).content, 'I work from Faro.');
  await aboutYou(ada).fill('');
  await button(ada.page, 'Save text').click();
  await toast(ada, 'Saved');
  assert.equal((await api(ada, 'GET', FILE)).content, '');
  await aboutYou(ada).fill('x'.repeat(16 * 1024 + 1));
  await main(ada).getByText('The limit is 16 KiB. Shorten the text.').waitFor();
  assert.equal(await button(ada.page, 'Save text').isDisabled(), true);
  await aboutYou(ada).fill('');
});

test('an admin tells agents about the workspace, with a preview', async () => {
  await ada.page.goto(`${SETTINGS}/told`);
  await main(ada).getByRole('heading', { name: 'Told to all', exact: true }).waitFor();
  await main(ada).getByText('Nothing is sent.').waitFor();
  await inspect(ada, 'about-us-off');
  await box(ada.page, 'About us').fill('We sell pears.');
  await ada.page.getByRole('switch', { name: 'Send workspace context' }).check();
  await preview(ada).getByText('Members:').waitFor();
  assert.equal(await box(ada.page, 'About us').inputValue(), 'We sell pears.', 'the unsaved text stays');
  await ada.page.getByRole('checkbox', { name: 'Members', exact: true }).uncheck();
  await button(ada.page, 'Save').click();
  await toast(ada, 'Saved. The next reply of every agent uses it.');
  await preview(ada).getByText('We sell pears.').waitFor();
  assert.doesNotMatch(await preview(ada).innerText(), /Members:/);
  await main(ada)
    .getByText(/^\d+ tokens: About us \d+$/)
    .waitFor();
  await inspect(ada, 'about-us');
});

test('members see it, and only admins change it', async () => {
  await bo.page.goto(`${SETTINGS}/told`);
  await preview(bo).getByText('We sell pears.').waitFor();
  await main(bo).getByText('Only admins can change this.').waitFor();
  assert.equal(await bo.page.getByRole('switch', { name: 'Send workspace context' }).isDisabled(), true);
  assert.equal(await box(bo.page, 'About us').isEditable(), false);
  assert.equal(await button(bo.page, 'Save').count(), 0);
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
