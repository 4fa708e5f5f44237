// Reading a long reply while it is written, with one agent and with two at once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { button, message, PHONE, reply, shot, startThread, WIDE } from './lib/browser.mjs';
import { LONG } from './lib/model.mjs';
import { messageList } from './lib/parts.mjs';
import { startTeam } from './lib/team.mjs';

const { ada, model } = await startTeam({ model: true, bo: null });
const list = () => messageList(ada);
const scrollTop = () => list().evaluate((el) => el.scrollTop);
const answer = (name) => ada.page.getByRole('article', { name: new RegExp(`^${name}, `) }).last();
const stop = (name) => ada.page.locator('.composer').getByRole('button', { name, exact: true });
/** Distance from the top of the list to the top of a message. */
const fromTop = async (text) =>
  (await message(ada.page, text).last().boundingBox()).y - (await list().boundingBox()).y;

model.answers.set('essay', Array.from({ length: 12 }, () => LONG).join('\n\n'));

test('the trigger message stays at the top while the reply grows below it; End follows', async () => {
  await startThread(ada.page, 'Plans for the fair');
  await reply(ada.page, '@vibe hold an essay');
  await button(ada.page, 'Continues below').waitFor();
  await answer('Vibe').getByText('Conflict log, 30 days').first().waitFor();
  const top = await fromTop('@vibe hold an essay');
  assert.ok(top >= -2 && top < 80, `the trigger message is ${top} px below the top`);
  const before = await scrollTop();
  await shot(ada.page, 'reading-wide');
  await ada.page.setViewportSize(PHONE);
  await button(ada.page, 'Continues below').waitFor();
  await shot(ada.page, 'reading-390');
  await ada.page.setViewportSize(WIDE);
  await ada.page.waitForFunction(
    (y) => Math.abs(document.querySelector('[role=region][aria-label=Messages]').scrollTop - y) < 2,
    before,
  );
  const grown = await list().evaluate((el) => el.scrollHeight);
  model.release();
  await ada.page.waitForFunction(
    (h) =>
      document.querySelector('[role=region][aria-label=Messages]').scrollHeight > h + 500 &&
      !document.querySelector('[aria-busy=true]'),
    grown,
  );
  assert.equal(await scrollTop(), before, 'the view stays');
  await button(ada.page, 'Continues below').waitFor();
  await list().focus();
  await ada.page.keyboard.press('End');
  await ada.page.waitForFunction(() => {
    const el = document.querySelector('[role=region][aria-label=Messages]');
    return el.scrollHeight - el.scrollTop - el.clientHeight < 5;
  });
  await button(ada.page, 'Continues below').waitFor({ state: 'detached' });
});

test('with two agents, each running reply has its own Stop, which stops only that one', async () => {
  await reply(ada.page, '@vibe and @coder, hold a long answer');
  await stop('Stop Vibe').waitFor();
  await stop('Stop Coder').waitFor();
  await shot(ada.page, 'two-replies-wide');
  await ada.page.setViewportSize(PHONE);
  await stop('Stop Vibe').waitFor();
  await shot(ada.page, 'two-replies-390');
  await ada.page.setViewportSize(WIDE);
  await stop('Stop Coder').click();
  await stop('Stop').waitFor();
  await ada.page.locator('.composer').getByText('Vibe is writing').waitFor();
  model.release();
  await stop('Stop').waitFor({ state: 'detached' });
  await answer('Vibe').getByText('two quiet days before the fair').waitFor();
  await answer('Coder').getByText('Interrupted. The text so far is kept.').waitFor();
});

test('no page logged an error', () => {
  assert.deepEqual(ada.errors, []);
});
