// Personas: the list, the steps, drafting, approval, and the field in the agent editor.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { box, button } from './lib/browser.mjs';
import { png } from './lib/made.mjs';
import { dialog, inspect, main, toast } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, bo, model } = await startTeam({ model: true });
const PAGE = '/northwind/settings/styles';
const TEXT = 'You are calm. You name the risk first.';
const list = (p) => main(p).getByRole('list', { name: 'Characters' });
const steps = (p) => main(p).getByRole('navigation', { name: 'Steps of the character' });
const step = (p, name) => steps(p).getByRole('button', { name: new RegExp(`^${name}`) });
const marks = (p) => steps(p).getByRole('button').locator('.meta').allTextContents();
const stored = async (p, name) => (await api(p, 'GET', `personas?name=${encodeURIComponent(name)}`)).data[0];
const openPersona = async (p, name) => {
  await p.page.goto(PAGE);
  await list(p).getByRole('link', { name, exact: true }).click();
  await steps(p).waitFor();
};

test('the list is empty at first, and a persona is created by its name', async () => {
  await ada.page.goto(PAGE);
  await main(ada).getByText('No characters yet.').waitFor();
  await inspect(ada, 'personas-none');
  await button(ada.page, 'New character').click();
  await box(ada.page, 'Name').fill('Calm engineer');
  await button(ada.page, 'Create').click();
  await main(ada).getByRole('heading', { name: 'Calm engineer', exact: true }).waitFor();
  assert.deepEqual(await marks(ada), [
    'started',
    'not started',
    'not started',
    'not started',
    'not started',
    'not started',
    'not started',
  ]);
});

test('steps are filled and saved', async () => {
  await box(ada.page, 'Description').fill('For reviews');
  await step(ada, 'Principles').click();
  await box(ada.page, 'Text').fill('Facts before opinions.');
  assert.equal((await marks(ada))[4], 'started');
  await box(ada.page, 'Points').fill('Names the risk\nOffers a way out');
  assert.equal((await marks(ada))[4], 'done');
  await inspect(ada, 'personas-step');
  await button(ada.page, 'Save').click();
  await toast(ada, 'Saved');
  const persona = await stored(ada, 'Calm engineer');
  assert.deepEqual(persona.principles, {
    text: 'Facts before opinions.',
    items: ['Names the risk', 'Offers a way out'],
  });
  assert.equal(persona.description, 'For reviews');
});

test('a persona has an avatar', async () => {
  const { id } = await stored(ada, 'Calm engineer');
  await step(ada, 'Name').click();
  await box(ada.page, 'Emoji').fill('🧭');
  await button(ada.page, 'Blue').click();
  const file = { name: 'calm.png', mimeType: 'image/png', buffer: png(16, 16) };
  await main(ada).locator('input[type=file]').setInputFiles(file);
  await button(ada.page, 'Remove picture').waitFor();
  await inspect(ada, 'personas-avatar');
  await button(ada.page, 'Save').click();
  await toast(ada, 'Saved');
  const { avatar } = await api(ada, 'GET', `personas/${id}`);
  assert.deepEqual([avatar.emoji, avatar.color, /^file_/.test(avatar.file_id)], ['🧭', '#2563eb', true]);
  // Everyone in the workspace can see the picture.
  await openPersona(bo, 'Calm engineer');
  await bo.page.waitForFunction(() => document.querySelector('main .av img')?.naturalWidth === 16);
  await button(ada.page, 'Remove picture').click();
  await button(ada.page, 'Blue').click();
  await box(ada.page, 'Emoji').fill('');
  await button(ada.page, 'Save').click();
  await button(ada.page, 'Save').and(ada.page.locator(':disabled')).waitFor();
  assert.equal((await api(ada, 'GET', `personas/${id}`)).avatar, null);
});

test('the text is drafted by the model, and approved', async () => {
  model.answers.set('Names the risk', TEXT);
  await step(ada, 'Compressed text').click();
  assert.equal(await button(ada.page, 'Approve').isDisabled(), true);
  await button(ada.page, 'Draft from the steps').click();
  await ada.page.waitForFunction(
    (text) => document.querySelector('form[aria-label="Character"] textarea')?.value === text,
    TEXT,
  );
  assert.equal((await stored(ada, 'Calm engineer')).compressed, '', 'a draft is not stored');
  await button(ada.page, 'Approve').click();
  await toast(ada, 'Approved');
  await main(ada).getByText('Approved', { exact: true }).waitFor();
  assert.equal((await marks(ada))[6], 'done');
  await box(ada.page, 'Compressed text').fill(`${TEXT} You offer a way out.`);
  await main(ada).getByRole('heading', { name: 'Changes since the approved text' }).waitFor();
  await inspect(ada, 'personas-difference');
  await button(ada.page, 'Save').click();
  await main(ada).getByText('Refined', { exact: true }).waitFor();
});

test('unsaved changes are kept after someone else’s change', async () => {
  await openPersona(bo, 'Calm engineer');
  await box(bo.page, 'Description').fill('By Bo');
  const { id } = await stored(ada, 'Calm engineer');
  await api(ada, 'PATCH', `personas/${id}`, { description: 'By Ada' });
  await button(bo.page, 'Save').click();
  await main(bo)
    .getByRole('heading', { name: /^Ada .* saved version \d+ in the meantime/ })
    .waitFor();
  await inspect(bo, 'personas-conflict');
  await button(bo.page, 'Keep editing').click();
  assert.equal(await box(bo.page, 'Description').inputValue(), 'By Bo');
  await main(bo).getByRole('link', { name: 'All characters' }).click();
  await dialog(bo).getByText('Discard your changes?').waitFor();
  await button(bo.page, 'Stay').click();
  await bo.page.goBack();
  await dialog(bo).getByText('Discard your changes?').waitFor();
  await button(bo.page, 'Stay').click();
  await button(bo.page, 'Save').click();
  await main(bo).getByRole('group', { name: 'Description' }).getByRole('radio', { name: 'Yours' }).check();
  await button(bo.page, 'Save choices').click();
  await toast(bo, 'Saved');
  assert.equal((await stored(ada, 'Calm engineer')).description, 'By Bo');
});

test('an agent names a persona', async () => {
  const agent = await api(ada, 'POST', 'agents', { name: 'sage', instructions: 'You are Sage.' });
  const draft = await api(ada, 'POST', 'personas', { name: 'Poet' });
  await ada.page.goto(`/northwind/settings/agents/${agent.id}/edit`);
  await main(ada)
    .getByRole('button', { name: /^Character/ })
    .click();
  const field = main(ada).getByLabel('Character', { exact: true });
  await field.selectOption({ label: 'Poet (Draft)' });
  await main(ada).getByText('Not approved. Agents do not use it yet.').waitFor();
  await inspect(ada, 'personas-agent');
  await field.selectOption({ label: 'Calm engineer (Refined)' });
  await button(ada.page, 'Save').click();
  await main(ada).getByText('Edited since it was approved. Agents use the approved text.').waitFor();
  const { persona } = await api(ada, 'GET', `agents/${agent.id}`);
  assert.deepEqual([persona.name, persona.is_sent], ['Calm engineer', true]);
  await ada.page.goto(PAGE);
  const row = list(ada).getByRole('listitem').filter({ hasText: 'Calm engineer' });
  await row.getByText('Used by 1 agent').waitFor();
  await row.getByText('Refined', { exact: true }).waitFor();
  await inspect(ada, 'personas-list');
  // The persona is in use, so it cannot be deleted.
  await openPersona(ada, 'Calm engineer');
  await button(ada.page, 'Delete').click();
  await dialog(ada).getByRole('button', { name: 'Delete', exact: true }).click();
  await dialog(ada).getByText('agents use this persona').waitFor();
  await button(ada.page, 'Cancel').click();
  await openPersona(ada, draft.name);
  await button(ada.page, 'Delete').click();
  await dialog(ada).getByRole('button', { name: 'Delete', exact: true }).click();
  await toast(ada, 'The character “Poet” was deleted');
  assert.equal(await stored(ada, 'Poet'), undefined);
});

test('without a model, the draft is disabled with a reason', async () => {
  const { ada: ann } = await startTeam({ bo: null });
  const { id } = await api(ann, 'POST', 'personas', { name: 'Calm engineer' });
  await ann.page.goto(`${PAGE}?persona=${id}`);
  await step(ann, 'Compressed text').click();
  await main(ann).getByText('Needs a model').waitFor();
  assert.equal(await button(ann.page, 'Draft from the steps').isDisabled(), true);
});
