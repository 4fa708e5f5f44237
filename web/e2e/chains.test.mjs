import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { button, startThread } from './lib/browser.mjs';
import { answers, composer, dialog, inspect, option } from './lib/parts.mjs';
import { startTeam } from './lib/team.mjs';

const { model, ada, bo } = await startTeam({ model: true });
const work = (p) => p.page.getByRole('region', { name: 'Agents at work' }).last();

before(async () => {
  await startThread(ada.page, 'Friday or Monday for the launch?');
  await bo.page
    .locator('main')
    .getByRole('link', { name: /Friday or Monday/ })
    .click();
  await composer(bo).waitFor();
});

test('a person builds a chain in the composer, and both agents reply in turn', async () => {
  model.answers.set('draft it', 'We launch on Monday.');
  model.answers.set('check it', 'The draft is fine.');
  await composer(ada).pressSequentially('@coder');
  await option(ada, 'Then another agent…').click();
  assert.equal(await composer(ada).inputValue(), '@coder → @');
  await option(ada, /^Vibe/).waitFor();
  await composer(ada).fill('@coder draft it → @vibe check it');
  const chain = ada.page.getByRole('list', { name: 'Chain' });
  assert.deepEqual(await chain.getByRole('listitem').allTextContents(), ['1. Coder', '2. Vibe']);
  await ada.page.getByText('Coder answers first, then Vibe.').waitFor();
  await inspect(ada, 'chain-composer');
  await ada.page.keyboard.press('Enter');
  for (const p of [ada, bo]) {
    await answers(p, 'Coder').getByText('We launch on Monday.').waitFor();
    await answers(p, 'Vibe').getByText('The draft is fine.').waitFor();
    await work(p).getByText('Coder done · Vibe done').waitFor();
  }
  await inspect(bo, 'chain-done');
  const second = await model.until((body) => String(body.messages.at(-1).content).endsWith('check it'));
  assert.match(JSON.stringify(second.messages), /We launch on Monday/);
  assert.match(JSON.stringify(second.messages), /This is step 2 of 2/);
});

test('the work lists each step with its cost, and opens what an agent saw', async () => {
  await work(bo).getByRole('button', { name: 'Show work' }).click();
  const steps = dialog(bo).getByRole('tree', { name: 'Agents and steps' }).getByRole('treeitem');
  assert.match(await steps.first().textContent(), /Coder, step 1, done in /);
  assert.equal(await steps.count(), 2);
  await dialog(bo)
    .getByText(/^\d+ model calls · /)
    .waitFor();
  await inspect(bo, 'chain-work');
  await steps.first().press('ArrowDown');
  await bo.page.keyboard.press('Enter');
  assert.match(bo.page.url(), /panel=task:task_/);
  await bo.page.keyboard.press('Escape');
});

test('Stop all ends the chain', async () => {
  await composer(bo).fill('@coder hold this → @vibe check it again');
  await bo.page.keyboard.press('Enter');
  await work(ada)
    .getByText(/^Coder writing \d+ s · Vibe waiting$/)
    .waitFor();
  await work(ada).getByRole('button', { name: 'Stop all' }).click();
  for (const p of [ada, bo]) await work(p).getByText('Coder stopped · Vibe not asked').waitFor();
  assert.equal(await button(ada.page, 'Stop all').count(), 0);
});

test('a failed step names the agent that was not asked', async () => {
  await composer(ada).fill('@coder refuse this → @vibe check it once more');
  await ada.page.keyboard.press('Enter');
  const notice = 'Coder could not answer, so Vibe was not asked. Retry continues with Coder.';
  await bo.page.getByText(notice).waitFor();
  await work(bo).getByText('Coder failed · Vibe not asked').waitFor();
});
