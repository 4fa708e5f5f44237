// A new agent that a model drafts from a description.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { box, button } from './lib/browser.mjs';
import { inspect, main } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, model } = await startTeam({ model: true, bo: null });
const NEW = '/northwind/settings/agents/new';
const QUESTION = 'What should this agent do?';
const DRAFT = {
  name: 'release-notes',
  display_name: 'Release notes',
  description: 'Drafts release notes from a list of changes.',
  instructions: 'You draft release notes.\n\n- Keep them short.',
  capabilities: ['writing', 'releases'],
  role: 'specialist',
  tools: [{ type: 'web_fetch' }],
};
const value = (p, name) => box(p.page, name).inputValue();
const byName = async (name) => (await api(ada, 'GET', `agents?name=${encodeURIComponent(name)}`)).data[0];

test('a description fills the fields of a new agent', async () => {
  model.answers.set('notes for releases', JSON.stringify(DRAFT));
  await ada.page.goto(NEW);
  await button(ada.page, 'Describe it').click();
  assert.equal(
    await box(ada.page, QUESTION).evaluate((e) => e === document.activeElement),
    true,
    'without a description, the field has the focus',
  );
  await box(ada.page, QUESTION).fill('Writes notes for releases');
  await inspect(ada, 'describe-empty');
  await button(ada.page, 'Describe it').click();
  await main(ada).getByText('Drafted by scripted-1. Read it before you save.').waitFor();
  await main(ada)
    .getByRole('button', { name: /^Description and tags/ })
    .click();
  assert.deepEqual(
    [await value(ada, 'Name'), await value(ada, 'Description')],
    [DRAFT.display_name, DRAFT.description],
  );
  await main(ada).getByText(`People write @${DRAFT.name}`).waitFor();
  assert.equal(await value(ada, 'Instructions'), DRAFT.instructions);
  assert.equal(await byName(DRAFT.name), undefined, 'a draft is not stored');
  await inspect(ada, 'describe-drafted');
});

test('Undo restores the fields, and a draft is created as it is shown', async () => {
  await button(ada.page, 'Undo').click();
  assert.deepEqual([await value(ada, 'Name'), await value(ada, 'Instructions')], ['', '']);
  await button(ada.page, 'Describe it').click();
  await main(ada).getByText('Read it before you save.').waitFor();
  await box(ada.page, 'Description').fill('Drafts our release notes.');
  await button(ada.page, 'Create agent').click();
  await main(ada).getByRole('heading', { name: DRAFT.display_name, level: 1 }).waitFor();
  const { id } = await byName(DRAFT.name);
  const made = await api(ada, 'GET', `agents/${id}`);
  assert.deepEqual(
    [made.description, made.instructions, made.capabilities, made.tools],
    ['Drafts our release notes.', DRAFT.instructions, DRAFT.capabilities, []],
  );
});

test('the button is busy while a model drafts, and a failure keeps the fields', async () => {
  await ada.page.goto(NEW);
  await box(ada.page, 'Name').fill('Mine');
  await box(ada.page, QUESTION).fill('hold and refuse');
  const held = new Promise((done) => void ada.page.route('**/v1/agents/draft', done));
  await button(ada.page, 'Describe it').click();
  await button(ada.page, 'Drafting…').waitFor();
  assert.equal(await button(ada.page, 'Drafting…').isDisabled(), true);
  await (await held).continue();
  await ada.page.getByRole('alert').filter({ hasText: 'did not draft a usable agent' }).waitFor();
  await inspect(ada, 'describe-failed');
  assert.equal(await value(ada, QUESTION), 'hold and refuse');
  assert.equal(await value(ada, 'Name'), 'Mine');
  assert.equal(await button(ada.page, 'Describe it').isEnabled(), true);
  await ada.page.unrouteAll();
});

test('a name that is taken gets a number', async () => {
  await ada.page.goto(NEW);
  await box(ada.page, QUESTION).fill('Writes notes for releases');
  await button(ada.page, 'Describe it').click();
  await main(ada).getByText('Read it before you save.').waitFor();
  await main(ada).getByText('People write @release-notes-2').waitFor();
});

test('without a model, the button is disabled with a reason', async () => {
  const { ada: ann } = await startTeam({ bo: null });
  await ann.page.goto(NEW);
  await main(ann).getByText('Needs a model').waitFor();
  assert.equal(await button(ann.page, 'Describe it').isDisabled(), true);
  await inspect(ann, 'describe-offline');
  assert.deepEqual(ann.errors, []);
});

test('no page logged an error', () => {
  assert.deepEqual(ada.errors, []);
});
