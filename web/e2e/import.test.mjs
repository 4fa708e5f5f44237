// The import of another product's history, in Settings › Import.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { button, message, shot } from './lib/browser.mjs';
import { inspect, main } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';
import { zipped } from './lib/zip.mjs';

const { ada, bo } = await startTeam();
const { page } = ada;
const part = main(ada);
const arrived = () => part.getByRole('heading', { name: 'Bring your history' }).waitFor();
const open = async () => {
  await page.goto('/northwind/settings/import');
  await arrived();
};
/** Goes to another page of the settings, and back. */
const leaveAndReturn = async () => {
  const pages = page.getByRole('navigation', { name: 'Settings' });
  await pages.getByRole('link', { name: 'Members' }).click();
  await part.getByRole('heading', { name: /members$/ }).waitFor();
  await pages.getByRole('link', { name: 'Import' }).click();
  await arrived();
};
const choose = (buffer, name = 'export.zip') =>
  part.getByLabel('Choose a file').setInputFiles({ name, mimeType: 'application/zip', buffer });
const row = (name) => part.getByRole('row').filter({ has: page.getByRole('rowheader', { name }) });
const last = async () => (await api(ada, 'GET', 'imports')).data[0];

const person = (id, name, email) => ({
  id,
  team_id: 'T1',
  name: name.toLowerCase(),
  profile: { real_name: name, email },
});
const channel = (id, name, members) => ({ id, name, created: 1_600_000_000, creator: 'U1', members });
const said = (user, second, text) => ({ type: 'message', user, ts: `${second}.000100`, text });
/** An export of Slack, with a bulky file that no channel names. */
const slack = (bulk = 0) =>
  zipped({
    'users.json': [person('U1', 'Una', null), person('U2', 'Bo', 'bo@example.com'), person('U3', 'Vi', null)],
    'channels.json': [channel('C1', 'general', ['U1', 'U2']), channel('C2', 'old-news', ['U1'])],
    'groups.json': [channel('G1', 'secret', ['U2', 'U3'])],
    'dms.json': [{ id: 'D1', created: 1_600_000_000, members: ['U1', 'U2'] }],
    'general/2021-05-03.json': [
      said('U1', 1_620_000_001, 'We moved to the new office'),
      said('U2', 1_620_000_002, 'It has a lake'),
      { ...said('U1', 1_620_000_003, 'joined'), subtype: 'channel_join' },
    ],
    'old-news/2021-05-03.json': [said('U1', 1_620_000_100, 'Nobody needs this')],
    'secret/2021-05-03.json': [said('U3', 1_620_000_200, 'Hidden words')],
    'D1/2021-05-03.json': [said('U1', 1_620_000_300, 'Between us')],
    ...(bulk ? { 'bulk.bin': Buffer.alloc(bulk, 7) } : {}),
  });

test('a file that is no export is refused with what to do', async () => {
  await open();
  await inspect(ada, 'import-pick');
  await choose(Buffer.from('not a zip'), 'notes.zip');
  await part.getByRole('alert').waitFor();
  assert.match(await part.getByRole('alert').innerText(), /not a zip/i);
  await choose(zipped({ 'photos.json': [] }));
  await part.getByRole('alert').getByText('In Slack: Settings, Import/Export Data, Export.').waitFor();
  await inspect(ada, 'import-refused');
});

test('an upload goes on after the connection was lost', async () => {
  const archive = slack(9 * 1024 * 1024);
  const sent = [];
  let isCut = false;
  await page.route('**/archive', async (route) => {
    sent.push(route.request().headers()['content-range'].split('/')[0]);
    if (sent.length !== 2) return route.continue();
    isCut = true; // the second piece does not arrive
    await route.abort('connectionreset');
  });
  await choose(archive);
  await part.getByRole('button', { name: /^Import \d/ }).waitFor();
  await page.unroute('**/archive');
  assert.ok(isCut);
  const rest = `bytes ${8 * 1024 * 1024}-${archive.length - 1}`;
  assert.deepEqual(sent, [`bytes 0-${8 * 1024 * 1024 - 1}`, rest, rest]);
  await button(part, 'Discard').click();
  await part.getByText('Drop the archive here').waitFor();
});

test('the preview shows what becomes of people and channels', async () => {
  await choose(slack());
  await part.getByText('Found 5 messages, 3 people, and 4 channels.').waitFor();
  await part
    .getByText(
      '1 private channel and 1 direct conversation: only their members will see them. Match yourself below',
    )
    .waitFor();
  assert.match(await row('#general').innerText(), /joins #general/);
  assert.match(await row('#old-news').innerText(), /new/);
  assert.match(await row('#secret').innerText(), /private/);
  assert.equal(await row('Una').getByRole('combobox').inputValue(), '');
  await inspect(ada, 'import-preview');
  await open(); // shows the same import
  await part.getByLabel('Match of Una').selectOption({ label: 'Ada Lindholm' });
  await part.getByText('You will see what you were in.').waitFor();
  await part.getByLabel('Leave out #old-news').check();
  assert.match(await row('#old-news').innerText(), /left out/);
});

test('an import runs to its end, and its messages are there', async () => {
  await button(part, 'Import 3 channels').click();
  await part.getByText('Done. 4 imported, 2 left out.').waitFor();
  assert.equal((await last()).state, 'done');
  await inspect(ada, 'import-done');
  const [file] = await Promise.all([page.waitForEvent('download'), button(part, 'Report').click()]);
  assert.equal(file.suggestedFilename(), 'import-report.md');
  assert.match(await readFile(await file.path(), 'utf8'), /\| messages \| 6 \| 4 \|/);
  const { channelId } = await known(ada);
  await page.goto(`/northwind/c/${channelId('general')}`);
  await page.getByText('We moved to the new office').first().waitFor();
  const { channels } = await api(ada, 'GET', 'snapshot');
  assert.ok(!channels.some((c) => c.name === 'old-news' || c.name === 'secret'));
});

test('an import is undone after a question', async () => {
  await open();
  await part.getByText('Done. 4 imported, 2 left out.').waitFor();
  await button(part, 'Undo').click();
  await part.getByText('Undo this import?').waitFor();
  await inspect(ada, 'import-undo');
  await button(part, 'Keep it').press('Enter');
  await button(part, 'Undo').click();
  await button(part, 'Undo import').click();
  await part.getByText('The import was undone.').waitFor();
  await page.goto('/');
  await page.getByText('Start a thread').first().waitFor();
  assert.equal(await message(page, 'We moved to the new office').count(), 0);
});

test('a running import is paused and resumed, also on a page that is opened again', async () => {
  const MESSAGES = 4000;
  const many = Array.from({ length: MESSAGES }, (_, n) => said('U1', 1_620_000_000 + n, `Message ${n}`));
  await open();
  await choose(
    zipped({
      'users.json': [person('U1', 'Una', null)],
      'channels.json': [channel('C3', 'long', ['U1'])],
      'long/2021-05-03.json': many,
    }),
  );
  await part.getByRole('button', { name: 'Import 4,000 messages, about 1 minute' }).click();
  await button(part, 'Pause').press('Enter');
  await part.getByRole('progressbar', { name: /^Paused at \d+ %$/ }).waitFor();
  assert.equal((await last()).state, 'paused');
  await inspect(ada, 'import-paused');
  await button(part, 'Undo').click();
  await part.getByText('Undo this import?').waitFor();
  await button(part, 'Keep it').press('Enter');
  await open();
  await leaveAndReturn();
  await button(part, 'Resume').press('Enter');
  await part.getByRole('progressbar', { name: /^Importing/ }).waitFor();
  await shot(page, 'import-running');
  await part.getByText('Done. 4,000 imported, 0 left out.').waitFor();
});

test('channels of Discord are private until they are made public', async () => {
  const chat = (id, name, key, content) => ({
    guild: { id: '42', name: 'Guild' },
    channel: { id, type: 'GuildTextChat', name },
    messages: [
      {
        id: key,
        type: 'Default',
        timestamp: '2021-05-03T10:00:00+00:00',
        content,
        author: { id: '7', name: 'user7', nickname: 'Ulla', isBot: false },
      },
    ],
  });
  await button(part, 'Import another').click();
  await choose(
    zipped({
      'lake.json': chat('838700000000000001', 'lake', '838700000000000011', 'The lake is cold'),
      'cave.json': chat('838700000000000002', 'cave', '838700000000000012', 'The cave is dark'),
    }),
  );
  assert.equal(await part.getByLabel('#cave becomes').inputValue(), 'private');
  await part.getByLabel('#lake becomes').selectOption('public');
  await inspect(ada, 'import-discord');
  await button(part, 'Import 2 messages').click();
  await part.getByText('Done. 2 imported, 0 left out.').waitFor();
  const { channels } = await api(bo, 'GET', 'snapshot');
  assert.deepEqual(
    channels.filter((c) => ['lake', 'cave'].includes(c.name)).map((c) => c.name),
    ['lake'],
  );
});

test('members cannot import', async () => {
  await bo.page.goto('/northwind/settings/import');
  await main(bo).getByText('Only admins can see this').waitFor();
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
