// Variants of chats: a message is run again with another text or agent, and its versions are one step apart.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, box, button, message, PHONE, WIDE } from './lib/browser.mjs';
import { answers, pictures } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { model, ada } = await startTeam({ model: true, bo: null });
const { page } = ada;
for (const [question, answer] of [
  ['Name a color', 'Blue, like the harbor.'],
  ['Name a city', 'Lisbon, on the river.'],
  ['Name a river', 'The Tagus.'],
])
  model.answers.set(question, answer);
const versions = page.getByRole('group', { name: 'Versions' });
const act = async (text, label) => {
  await message(page, text).last().hover();
  await message(page, text).last().getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: label }).click();
};

test('a message is edited and run again, after the messages before it', async () => {
  const { data } = await api(ada, 'GET', 'agents');
  const vibe = data.find((agent) => agent.name === 'vibe');
  const direct = await api(ada, 'POST', 'direct', { agent_id: vibe.id });
  await page.goto(`/northwind/c/${direct.id}`);
  for (const [question, answer] of [
    ['Name a color', 'Blue, like the harbor.'],
    ['Name a city', 'Lisbon, on the river.'],
  ]) {
    await box(page, 'Message Vibe').fill(question);
    await page.keyboard.press('Enter');
    await answers(ada, 'Vibe').getByText(answer).waitFor();
  }
  await act('Name a city', 'Edit and run again…');
  const edited = box(page.getByRole('dialog'), 'Message');
  assert.equal(await edited.inputValue(), 'Name a city');
  await edited.fill('Name a river');
  await accessible(page, 'Edit and run again');
  await button(page, 'Run again').click();
  await answers(ada, 'Vibe').getByText('The Tagus.').waitFor();
  await message(page, 'Name a color').waitFor();
  await answers(ada, 'Vibe').getByText('Blue, like the harbor.').waitFor();
  assert.equal(await message(page, 'Name a city').count(), 0);
  await page.getByRole('heading', { name: 'Name a color' }).waitFor();
  const sent = JSON.stringify(model.asked.at(-1).messages);
  assert.ok(sent.includes('Blue, like the harbor.') && !sent.includes('Lisbon'), sent);
});

test('Previous version and Next version are beside the message', async () => {
  await versions.getByText('2 of 2').waitFor();
  assert.ok(await versions.getByRole('button', { name: 'Next version' }).isDisabled());
  await versions.getByRole('button', { name: 'Previous version' }).click();
  await versions.getByText('1 of 2').waitFor();
  await answers(ada, 'Vibe').getByText('Lisbon, on the river.').waitFor();
  assert.equal(await message(page, 'Name a river').count(), 0);
  await versions.getByRole('button', { name: 'Next version' }).click();
  await answers(ada, 'Vibe').getByText('The Tagus.').waitFor();
  await accessible(page, 'a variant');
  await pictures(ada, '49-variant');
  await page.setViewportSize(PHONE);
  await accessible(page, 'a variant at 390 px');
  await pictures(ada, '49-variant-390');
  await page.setViewportSize(WIDE);
});

test('another agent answers in a third version, and the menu has one row for all', async () => {
  await act('Name a river', 'Try with another agent…');
  await page.getByRole('combobox', { name: 'Agent' }).selectOption({ label: 'Coder' });
  await button(page, 'Run again').click();
  await answers(ada, 'Coder').getByText('The Tagus.').waitFor();
  await versions.getByText('3 of 3').waitFor();
  await button(page, 'Conversations').click();
  const menu = page.getByRole('dialog', { name: 'Conversations' });
  await menu.getByRole('link', { name: /^Name a color/ }).waitFor();
  assert.equal(await menu.getByRole('listitem').count(), 1);
  await page.keyboard.press('Escape');
});

test('Find reads through the messages before the variant', async () => {
  await page.keyboard.press('Control+f');
  await box(page, 'Find in this thread').fill('harbor');
  await page.getByRole('search').getByText('1 of 1').waitFor();
});

test('the first chat is deleted with its versions', async () => {
  await page.keyboard.press('Escape');
  await button(page, 'Conversations').click();
  await button(page, 'Delete Name a color').click();
  await page.getByText('all of its versions').waitFor();
  await button(page, 'Delete conversation').click();
  await box(page, 'Message Vibe').waitFor();
  assert.equal(await message(page, 'Name a').count(), 0);
});
