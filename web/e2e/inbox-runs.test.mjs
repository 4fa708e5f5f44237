// The recipes review and incident, led to their ends from the inbox alone.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { box, button } from './lib/browser.mjs';
import { forkPanel, inspect, main } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { ada, model } = await startTeam({ model: true, bo: null, ada: { layout: 'split' } });
const TEXT = 'The hall is closed on Monday.';
const inbox = main(ada).getByRole('region', { name: 'Inbox', exact: true });
const toSettle = inbox.getByRole('list', { name: 'To settle' });
const card = ada.page.getByRole('article', { name: 'Approval: Approve the text', exact: true });
const flows = {};
let general;

const begin = async (name, input) =>
  (await api(ada, 'POST', `workflows/${flows[name]}/runs`, { channel_id: general, input })).run.id;
const completed = async (run) => {
  const end = Date.now() + 15_000;
  for (;;) {
    const { status } = await api(ada, 'GET', `runs/${run}`);
    if (status === 'completed') return;
    assert.ok(status !== 'failed' && Date.now() < end, status);
    await new Promise((done) => setTimeout(done, 50));
  }
};
/** Number of open items that wait for an act. */
const waiting = async () => {
  const { data } = await api(ada, 'GET', 'inbox');
  return data.filter(({ reason }) => ['approval', 'resolve', 'draft', 'failed'].includes(reason)).length;
};

before(async () => {
  general = (await known(ada)).channelId('general');
  const { data } = await api(ada, 'GET', 'workflow-recipes');
  for (const name of ['review', 'incident']) {
    const { description, default_agent_id, agents, steps } = data.find((recipe) => recipe.name === name);
    const form = { name, description, default_agent_id, agents, steps };
    flows[name] = (await api(ada, 'POST', 'workflows', form)).id;
  }
  model.answers.set('A note about the hall', TEXT);
  model.answers.set(TEXT, TEXT);
  await ada.page.goto('/northwind/inbox');
  await inbox.getByText('You’re caught up.').waitFor();
});

test('a review ends with the approval in the inbox', async () => {
  const run = await begin('review', 'A note about the hall');
  await card.getByText(TEXT).first().waitFor();
  await inspect(ada, 'inbox-review');
  await card.getByRole('button', { name: 'Approve', exact: true }).click();
  await completed(run);
  assert.equal(await waiting(), 0);
  assert.match(ada.page.url(), /\/northwind\/inbox/);
});

test('an incident ends with the result of its dive, beside the inbox', async () => {
  const run = await begin('incident', 'The pump of the pool stands still');
  const row = toSettle.getByRole('link', { name: /^Resolve, .*incident, step 2: resolve this deep dive/ });
  await row.waitFor();
  await inspect(ada, 'inbox-incident');
  await toSettle.locator('a.act').click();
  await ada.page.waitForURL(/inbox\?panel=dive:fork_\w+$/);
  model.holdDrafts = true;
  await button(ada.page, 'Resolve dive').click();
  await button(ada.page, 'Write it myself').click();
  await box(ada.page, 'Headline').fill('A fuse stopped the pump');
  await forkPanel(ada).getByText('Saved', { exact: true }).waitFor();
  model.holdDrafts = false;
  model.release();
  await forkPanel(ada).getByRole('button', { name: 'Post result' }).click();
  await completed(run);
  await row.waitFor({ state: 'detached' });
  assert.equal(await waiting(), 0);
  assert.deepEqual(ada.errors, []);
});
