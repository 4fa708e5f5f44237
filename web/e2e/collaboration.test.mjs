import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { box, button, message, startThread } from './lib/browser.mjs';
import { dialog, forkPanel, inspect, side } from './lib/parts.mjs';
import { startTeam } from './lib/team.mjs';

const { model, ada, bo } = await startTeam({ model: true });
const ROOT = 'What do we tell people about the launch?';
const bar = (p) => forkPanel(p).getByRole('region', { name: 'Agents at work' });

/** Opens the form from a message's menu, as with a mouse. */
async function ask(p, text) {
  await message(p.page, text).first().hover();
  await message(p.page, text).first().getByRole('button', { name: 'More actions' }).click();
  await p.page.getByRole('menuitem', { name: 'Have agents discuss it' }).click();
  await dialog(p).getByRole('group', { name: 'Agents' }).waitFor();
}
async function start(p, goal, turns) {
  await dialog(p).getByRole('checkbox', { name: 'Coder' }).check();
  await dialog(p).getByRole('checkbox', { name: 'Vibe', exact: true }).check();
  await box(dialog(p), 'Goal').fill(goal);
  await dialog(p).getByRole('spinbutton', { name: 'Turns' }).fill(turns);
}

before(async () => {
  await startThread(ada.page, ROOT);
  await bo.page.locator('main').getByRole('link', { name: ROOT }).click();
  await message(bo.page, ROOT).waitFor();
});

test('two agents work on a goal in turns, and the person reviews their draft', async () => {
  await ask(bo, ROOT);
  await inspect(bo, 'collaboration-form-empty');
  await start(bo, 'Write the notes, hold on to the dates', '2');
  await dialog(bo).getByText('1. Coder, 2. Vibe').waitFor();
  await inspect(bo, 'collaboration-form');
  await button(dialog(bo), 'Start').click();
  await bar(bo).getByText('Coder and Vibe · turn 1 of 2').waitFor();
  assert.ok(await button(forkPanel(bo), 'Resolve dive').isDisabled());
  await inspect(bo, 'collaboration-running');
  await model.until((body) => /This is turn 1 of 2/.test(String(body.messages.at(-1).content)));
  await forkPanel(bo)
    .getByRole('article', { name: /^Coder, / })
    .waitFor();
  model.release();
  await bar(bo).getByText('Coder and Vibe · turn 2 of 2').waitFor();
  const second = await model.until((body) =>
    /This is turn 2 of 2/.test(String(body.messages.at(-1).content)),
  );
  assert.match(JSON.stringify(second.messages), /your work with Coder on the goal below/);
  await forkPanel(bo)
    .getByRole('article', { name: /^Vibe, / })
    .waitFor();
  model.release();
  await button(bar(bo), 'Draft ready. Review and post').waitFor();
  await inspect(bo, 'collaboration-draft');
});

test('the draft waits for the person who asked, and for nobody else', async () => {
  await side(bo)
    .getByRole('link', { name: /^Inbox 1/ })
    .waitFor();
  assert.equal(
    await side(ada)
      .getByRole('link', { name: /^Inbox 1/ })
      .count(),
    0,
  );
  await side(bo)
    .getByRole('link', { name: /^Inbox/ })
    .click();
  await bo.page
    .getByRole('list', { name: 'To settle' })
    .getByRole('link', { name: /^Draft ready, / })
    .waitFor();
  await inspect(bo, 'collaboration-waiting');
  await bo.page.getByRole('link', { name: /^Review the draft/ }).click();
  await bo.page.waitForURL(/inbox\?panel=dive:\w+:resolve/);
  await box(bo.page, 'Headline').waitFor();
});

test('Stop ends the work without a draft', async () => {
  await ask(ada, ROOT);
  await start(ada, 'Please hold the second notes', '4');
  await button(dialog(ada), 'Start').click();
  await bar(ada).getByText('Coder and Vibe · turn 1 of 4').waitFor();
  await forkPanel(ada)
    .getByRole('article', { name: /^Coder, / })
    .waitFor();
  await button(bar(ada), 'Stop').click();
  await bar(ada).getByText('Coder and Vibe · stopped after 1 turn').waitFor();
  assert.equal(await button(bar(ada), 'Draft ready. Review and post').count(), 0);
});

test('an empty dive can be left to agents', async () => {
  await message(ada.page, ROOT).first().hover();
  await message(ada.page, ROOT).first().getByRole('button', { name: 'Deep dive from here' }).click();
  await ada.page.waitForURL(/panel=dive:fork_/);
  await button(forkPanel(ada), 'Have agents discuss it').click();
  await start(ada, 'Name the day', '2');
  await button(dialog(ada), 'Start').click();
  await button(bar(ada), 'Draft ready. Review and post').waitFor();
});
