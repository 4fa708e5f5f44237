// Settings, Collections: files, their versions, what was read of them, and questions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { box, button } from './lib/browser.mjs';
import { dialog, inspect, main, toast } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam();
const text = (name, words) => ({ name, mimeType: 'text/markdown', buffer: Buffer.from(words) });
const row = (p, path) => main(p).getByRole('row').filter({ hasText: path });
const open = async (p) => {
  await p.page.goto('/northwind/settings/collections');
  await p.page.getByRole('heading', { name: 'Collections' }).waitFor();
};
const add = (p, files) => main(p).getByLabel('Add files').setInputFiles(files);
const stores = async (p) => (await api(p, 'GET', 'vector_stores')).data;

test('an admin makes a collection, adds files, and sees what was read of each', async () => {
  await open(ada);
  await main(ada).getByText('Files for questions to agents.').waitFor();
  await inspect(ada, 'collections-none');
  await button(ada.page, 'New collection').click();
  await box(ada.page, 'Name').fill('Handbook');
  await dialog(ada).getByLabel('Who can read').selectOption({ label: 'Everyone except for guests' });
  await dialog(ada).getByLabel('Who can add').selectOption('members');
  await inspect(ada, 'collections-new');
  await button(ada.page, 'Create').click();
  await main(ada).getByText('No files yet. Drop files here.').waitFor();
  await inspect(ada, 'collections-empty');
  await add(ada, [
    text('Travel.md', '# Trains\n\nThe okapi express is preferred.'),
    text('old.rtf', '{\\rtf1 x}'),
  ]);
  await row(ada, 'Travel.md').getByText('1 part').waitFor();
  await row(ada, 'old.rtf').getByText('Old format').waitFor();
  await main(ada).getByText('1 of 2 files could not be read').waitFor();
  await inspect(ada, 'collections-files');
  const [store] = await stores(bo);
  assert.deepEqual([store.name, store.channel_id, store.editors], ['Handbook', null, 'members']);
});

test('a question shows the passages that agents would get', async () => {
  await box(ada.page, 'Try a question').fill('Which express?');
  await button(ada.page, 'Ask').click();
  const passages = main(ada).getByRole('list', { name: 'Passages' });
  await passages.getByText('The okapi express is preferred.').waitFor();
  await box(ada.page, 'Try a question').fill('quokka');
  await button(ada.page, 'Ask').click();
  await main(ada).getByText('No passage matches.').waitFor();
});

test('a file is replaced and removed, and others see it live', async () => {
  await open(bo);
  await main(bo).getByRole('link', { name: 'Handbook' }).click();
  await row(bo, 'Travel.md').waitFor();
  await row(ada, 'Travel.md')
    .getByLabel('Replace Travel.md')
    .setInputFiles(text('Other.md', '# Trains\n\nThe quokka express is preferred.'));
  const asked = async () => {
    const found = await api(ada, 'POST', `vector_stores/${(await stores(ada))[0].id}/search`, {
      query: 'express',
    });
    return found.data.map((hit) => hit.content[0].text);
  };
  for (let n = 0; n < 100 && !(await asked()).some((words) => words.includes('quokka')); n++)
    await ada.page.waitForTimeout(100);
  assert.equal((await asked()).length, 1);
  await button(row(ada, 'old.rtf'), 'Remove old.rtf').click();
  await button(dialog(ada), 'Remove').click();
  await row(bo, 'old.rtf').waitFor({ state: 'detached' });
  assert.equal(await row(bo, 'Travel.md').count(), 1);
});

test('a page of a private network is refused, and a collection of a channel is for its readers', async () => {
  await button(ada.page, 'Add a web page').click();
  await dialog(ada).getByLabel('Address').fill('https://127.0.0.1/');
  await inspect(ada, 'collections-page');
  await button(dialog(ada), 'Add').click();
  await dialog(ada).getByText('127.0.0.1 is not a public address').waitFor();
  await button(dialog(ada), 'Cancel').click();
  const channel = await api(ada, 'POST', 'channels', { name: 'board', private: true });
  await api(ada, 'POST', 'vector_stores', { name: 'Secrets', channel_id: channel.id });
  await open(bo);
  await main(bo).getByRole('link', { name: 'Handbook' }).waitFor();
  assert.equal(await main(bo).getByRole('link', { name: 'Secrets' }).count(), 0);
  await open(ada);
  await main(ada).getByRole('link', { name: 'Secrets' }).waitFor();
  await inspect(ada, 'collections-list');
});

test('a deleted collection leaves the list', async () => {
  await main(ada).getByRole('link', { name: 'Secrets' }).click();
  await button(ada.page, 'Delete collection').click();
  await button(dialog(ada), 'Delete collection').click();
  await toast(ada, 'The collection is deleted');
  await main(ada).getByRole('link', { name: 'Handbook' }).waitFor();
  assert.equal(await main(ada).getByRole('link', { name: 'Secrets' }).count(), 0);
});
