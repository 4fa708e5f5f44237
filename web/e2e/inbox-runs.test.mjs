// Runs of the recipes "incident" and "review" are led to their ends from the inbox alone.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { box, button } from './lib/browser.mjs';
import { forkPanel, main } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { ada } = await startTeam({ model: true, bo: null, ada: { layout: 'split' } });
const { page } = ada;
const channel_id = (await known(ada)).channelId('general');
const inbox = main(ada).getByRole('region', { name: 'Inbox', exact: true });
const runs = {};
const statusOf = async (name) => (await api(ada, 'GET', `runs/${runs[name]}`)).status;
const ends = async (name) => {
  const end = Date.now() + 15_000;
  while ((await statusOf(name)) !== 'completed') {
    assert.ok(Date.now() < end, `${name} has not ended`);
    await new Promise((done) => setTimeout(done, 50));
  }
};

before(async () => {
  const recipes = (await api(ada, 'GET', 'workflow-recipes')).data;
  for (const name of ['incident', 'review']) {
    const recipe = recipes.find((one) => one.name === name);
    const flow = await api(ada, 'POST', 'workflows', recipe);
    const started = await api(ada, 'POST', `workflows/${flow.id}/runs`, { channel_id, input: 'The disk' });
    runs[name] = started.run.id;
  }
  await page.goto('/northwind/inbox');
  await inbox.waitFor();
});

test('an incident is resolved from its row, beside the inbox', async () => {
  await page
    .getByRole('link', { name: /^Resolve / })
    .first()
    .click();
  await page.waitForURL(/inbox\?panel=dive:\w+/);
  await forkPanel(ada).getByRole('button', { name: 'Resolve dive', exact: true }).click();
  await box(page, 'Headline').waitFor();
  await box(page, 'Headline').fill('It was the disk');
  await forkPanel(ada).getByText('Saved', { exact: true }).waitFor();
  await button(page, 'Post result').click();
  await ends('incident');
  assert.match(page.url(), /\/inbox/);
  await page.getByRole('link', { name: /^Resolve / }).waitFor({ state: 'detached' });
});

test('a review goes on with its approval in the inbox', async () => {
  const card = page.getByRole('article', { name: 'Approval: Approve the text', exact: true });
  await card.getByRole('button', { name: 'Approve', exact: true }).click();
  await ends('review');
  await card.waitFor({ state: 'detached' });
  assert.match(page.url(), /\/inbox/);
  const { data } = await api(ada, 'GET', 'inbox');
  const left = data.filter(
    ({ reason }) => reason === 'approval' || reason === 'resolve' || reason === 'draft',
  );
  assert.deepEqual(left, []);
});
