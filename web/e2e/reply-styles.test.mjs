// Reply styles: the chip in the composer, and the page in the settings.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { accessible, box, button, reply, startThread } from './lib/browser.mjs';
import { answers, composer, inspect, main, threadId, toast } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam({ model: true });
const PAGE = '/northwind/settings/styles';
const chip = (p, style, name = 'Vibe') => button(p.page, `Reply style for ${name}: ${style}`);
const pick = (p, name) => p.page.getByRole('menuitemradio', { name }).click();
const group = (p, name) => main(p).getByRole('group', { name, exact: true });
let thread = '';

before(async () => {
  await startThread(ada.page, 'Friday or Monday?');
  thread = new URL(ada.page.url()).pathname;
  await bo.page.goto(thread);
  await composer(bo).waitFor();
});

test('the chip is there when an agent would answer, and one choice applies to everyone', async () => {
  assert.equal(await ada.page.getByText('Style: Default').count(), 0);
  await composer(ada).fill('@vibe why Monday?');
  await chip(ada, 'Default').waitFor();
  await ada.page.getByText('Style: Default').waitFor();
  await accessible(ada.page, 'the chip of a reply style');
  await chip(ada, 'Default').click();
  const names = ada.page.getByRole('menuitemradio');
  await names.nth(4).waitFor();
  assert.equal(await names.count(), 5, 'Default and four presets');
  await accessible(ada.page, 'the menu of reply styles');
  await pick(ada, /^Brief/);
  await chip(ada, 'Brief').waitFor();
  await composer(bo).fill('@vibe and Friday?');
  await chip(bo, 'Brief').waitFor();
  const { presets } = await api(ada, 'GET', `threads/${threadId(ada)}`);
  assert.deepEqual(
    presets.map((p) => [p.preset, p.chosen_by]),
    [['concise', 'person']],
  );
  await composer(ada).fill('');
  await reply(ada.page, '@vibe why Monday?');
  await answers(ada, 'Vibe').first().waitFor();

  await chip(bo, 'Brief').click();
  await pick(bo, /^Default/);
  await chip(bo, 'Default').waitFor();
  await composer(bo).fill('');
});

test('a message to a person gets no chip, and another agent has its own', async () => {
  await composer(ada).fill('@bo what do you think?');
  assert.equal(await ada.page.getByText(/^Style: /).count(), 0);
  await composer(ada).fill('@coder what do you think?');
  await chip(ada, 'Default', 'Coder').waitFor();
  await composer(ada).fill('');
});

test('an admin adds a style by its name; a conflict keeps unsaved changes', async () => {
  await ada.page.goto(PAGE);
  const styles = main(ada).getByRole('list', { name: 'Styles', exact: true });
  await styles.getByRole('link', { name: 'Brief' }).waitFor();
  await inspect(ada, 'styles');
  await main(ada).getByRole('link', { name: 'New style' }).click();
  await box(main(ada), 'Name').fill('Rhyme');
  await box(main(ada), 'Text').fill('Answer in rhyme.');
  await inspect(ada, 'styles-new');
  // Another admin's change of another style is no conflict.
  const current = await api(ada, 'GET', 'prompt-profiles');
  await api(ada, 'PUT', 'prompt-profiles', { ...current, rules: current.rules.slice(1) });
  await button(ada.page, 'Save').click();
  await toast(ada, 'Saved');
  await styles.getByRole('link', { name: 'Rhyme' }).click();
  const saved = await api(ada, 'GET', 'prompt-profiles');
  const rhyme = { id: 'rhyme', name: 'Rhyme', description: '', addons: ['rhyme'] };
  assert.deepEqual(saved.presets, [...current.presets, rhyme]);
  assert.deepEqual(saved.addons, [...current.addons, { id: 'rhyme', text: 'Answer in rhyme.' }]);
  assert.deepEqual(saved.rules, current.rules.slice(1));

  await box(main(ada), 'Text').fill('Answer in two rhymes.');
  const addons = saved.addons.with(-1, { id: 'rhyme', text: 'Answer in blank verse.' });
  await api(ada, 'PUT', 'prompt-profiles', { ...saved, addons });
  await button(ada.page, 'Save').click();
  await main(ada)
    .getByRole('heading', { name: /^Someone saved version \d+ in the meantime/ })
    .waitFor();
  await inspect(ada, 'styles-conflict');
  await button(ada.page, 'Keep editing').click();
  assert.equal(await box(main(ada), 'Text').inputValue(), 'Answer in two rhymes.');
  await button(ada.page, 'Compare').click();
  await group(ada, 'Text').getByRole('radio', { name: 'Yours' }).check();
  await button(ada.page, 'Save choices').click();
  await toast(ada, 'Saved');
  const { addons: now } = await api(ada, 'GET', 'prompt-profiles');
  assert.equal(now.at(-1).text, 'Answer in two rhymes.');
});

test('rules and defaults are folded; a style is deleted with those that choose it', async () => {
  await ada.page.goto(PAGE);
  assert.equal(await group(ada, 'Rule 1').isVisible(), false);
  await main(ada).getByText('Rules and defaults', { exact: true }).click();
  await box(group(ada, 'Rule 1'), 'Keywords').fill('plan\nwell, what now');
  await inspect(ada, 'styles-rules');
  await button(ada.page, 'Save').click();
  await toast(ada, 'Saved');
  assert.deepEqual((await api(ada, 'GET', 'prompt-profiles')).rules[0].keywords, ['plan', 'well, what now']);
  await main(ada).getByRole('link', { name: 'Plan', exact: true }).click();
  await button(ada.page, 'Delete').click();
  await button(ada.page.getByRole('dialog'), 'Delete').click();
  await toast(ada, 'The style “Plan” was deleted');
  const { presets, rules } = await api(ada, 'GET', 'prompt-profiles');
  assert.ok(![...presets.map((p) => p.id), ...rules.map((r) => r.preset)].includes('planner'));

  await ada.page.goto(thread);
  await composer(ada).fill('@vibe why?');
  await chip(ada, 'Default').click();
  await pick(ada, /^Rhyme/);
  await chip(ada, 'Rhyme').waitFor();
});

test('an agent has a style of its own', async () => {
  const { id } = (await api(ada, 'GET', 'agents?name=vibe')).data[0];
  await ada.page.goto(`/northwind/settings/agents/${id}/edit`);
  await main(ada)
    .getByRole('button', { name: /^Character and style/ })
    .click();
  const field = main(ada).getByLabel('Style', { exact: true });
  assert.equal(await field.inputValue(), '');
  await field.selectOption('By rules');
  await main(ada).getByText('The workspace’s rules choose one based on the message').waitFor();
  await inspect(ada, 'reply-styles-agent');
  await field.selectOption('Rhyme');
  await button(ada.page, 'Save').click();
  await toast(ada, 'Saved as version 2');
  assert.equal((await api(ada, 'GET', `agents/${id}`)).prompting.profile, 'rhyme');
});

test('members see who uses a style, and cannot change it', async () => {
  await bo.page.goto(PAGE);
  const row = main(bo).getByRole('listitem').filter({ hasText: 'Rhyme' });
  await row.getByText('Used by Vibe').waitFor();
  await row.getByRole('link', { name: 'Rhyme' }).click();
  await main(bo).getByText('Only admins can change this.').waitFor();
  assert.equal(await box(main(bo), 'Text').isEditable(), false);
  assert.equal(await button(bo.page, 'Save').count(), 0);
});
