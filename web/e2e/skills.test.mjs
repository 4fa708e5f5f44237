// Skills: a zip file becomes one, its files and its readers, and the field in the agent editor.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { button } from './lib/browser.mjs';
import { dialog, inspect, main, toast } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';
import { zipped } from './lib/zip.mjs';

const { ada, bo } = await startTeam();
const PAGE = '/northwind/settings/agents?skill=';
const text = (description) => `---\nname: tides\ndescription: ${description}\n---\nCount the waves.\n`;
const zip = (description, folder = 'tides') => ({
  name: 'tides.zip',
  mimeType: 'application/zip',
  buffer: zipped({
    [`${folder}/SKILL.md`]: Buffer.from(text(description)),
    [`${folder}/table.md`]: Buffer.from('High water at noon.'),
  }),
});
const pick = (p, file) => main(p).locator('input[type=file]').setInputFiles(file);
const list = (p) => main(p).getByRole('list', { name: 'Skills' });
const skills = async (p) => (await api(p, 'GET', 'skills')).data;

test('a zip file becomes a skill, and a wrong one is explained', async () => {
  await ada.page.goto('/northwind/settings/agents');
  await main(ada).getByRole('link', { name: 'Skills', exact: true }).click();
  await main(ada).getByText('No skills yet.').waitFor();
  await inspect(ada, 'skills-none');
  await pick(ada, zip('Reads the tide table', 'moon'));
  await main(ada).getByRole('alert').getByText('must have the name of the skill').waitFor();
  await pick(ada, zip('Reads the tide table'));
  await main(ada).getByRole('heading', { name: 'tides', exact: true }).waitFor();
  await main(ada).getByText('Count the waves.').waitFor();
  await inspect(ada, 'skills-one');
  await main(ada).getByRole('link', { name: 'All skills' }).click();
  await list(ada).getByText('Reads the tide table').waitFor();
});

test('files are replaced, and other windows follow', async () => {
  const [{ id }] = await skills(ada);
  await bo.page.goto(PAGE + id);
  await main(bo).getByText('Reads the tide table', { exact: true }).waitFor();
  await ada.page.goto(PAGE + id);
  await main(ada).getByRole('heading', { name: 'tides', exact: true }).waitFor();
  await pick(ada, zip('Knows the moon'));
  await toast(ada, /^Saved/);
  await main(bo).getByText('Knows the moon', { exact: true }).waitFor();
});

test('its readers are chosen by channel, and those who lose it see that it is gone', async () => {
  const form = { name: 'board', private: true };
  const { id: channel } = await api(ada, 'POST', 'channels', form);
  const [{ id }] = await skills(ada);
  await ada.page.goto(PAGE + id);
  await main(ada).getByLabel('These channels').check();
  assert.equal(await button(ada.page, 'Save').isDisabled(), true);
  await main(ada).getByLabel('#board').check();
  await button(ada.page, 'Save').click();
  await toast(ada, /^Saved/);
  assert.deepEqual((await skills(ada))[0].channel_ids, [channel]);
  await main(bo).getByText('Skill not found').waitFor();
  await main(ada).getByLabel('Everyone except for guests').check();
  await button(ada.page, 'Save').click();
  await toast(ada, /^Saved/);
  await main(bo).getByText('Knows the moon', { exact: true }).waitFor();
});

test('an agent gets a skill in the editor', async () => {
  const { data } = await api(ada, 'GET', 'agents?name=vibe');
  await ada.page.goto(`/northwind/settings/agents/${data[0].id}/edit`);
  await main(ada)
    .getByRole('button', { name: /^Skills/ })
    .click();
  await main(ada).getByLabel('Skills', { exact: true }).selectOption('some');
  await main(ada)
    .getByRole('checkbox', { name: /^tides/ })
    .check();
  await inspect(ada, 'skills-editor');
  await button(ada.page, 'Save').click();
  await toast(ada, /^Saved/);
  assert.deepEqual((await api(ada, 'GET', `agents/${data[0].id}`)).skills, ['tides']);
  assert.equal((await skills(ada))[0].used_by, 1);
});

test('a deleted skill is missing in its agents', async () => {
  const [{ id }] = await skills(ada);
  await ada.page.goto(PAGE + id);
  await button(main(ada), 'Delete').click();
  await dialog(ada).getByText('1 agent can no longer use').waitFor();
  await button(dialog(ada), 'Delete').click();
  await main(ada).getByText('No skills yet.').waitFor();
  const { data } = await api(ada, 'GET', 'agents?name=vibe');
  assert.deepEqual((await api(ada, 'GET', `agents/${data[0].id}`)).missing_skills, ['tides']);
});
