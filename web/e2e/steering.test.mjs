// Messages to a running reply: read at once, or after it, by keyboard and by touch.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, button, message, PHONE, reply, shot, startThread, WIDE } from './lib/browser.mjs';
import { answers, composer, main, threadId, toast } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { model, ada, bo } = await startTeam({ model: true });
model.answers.set('only the day', 'MONDAY.');
model.answers.set('the budget', 'THE-BUDGET.');
const NOW = 'Vibe reads this now';
const AFTER = 'After this reply';

/** Starts a reply of Vibe to Ada that waits after its first words. */
async function running() {
  await ada.page.goto('/northwind/c/general');
  await startThread(ada.page, 'Plans for the fair');
  await reply(ada.page, '@vibe hold a long answer');
  await answers(ada, 'Vibe').getByText('last-write-wins for each field').waitFor();
}
const tasks = async () => {
  // Ada's browser can be offline.
  const { data } = await api(bo, 'GET', `tasks?thread_id=${threadId(ada)}&limit=100`);
  return data.filter((task) => task.kind === 'reply');
};
const completed = async (count) => {
  for (;;) {
    const all = await tasks();
    if (all.length === count && all.every((task) => task.status === 'completed')) return all;
    await ada.page.waitForTimeout(100);
  }
};

test('Enter sends a message to the running reply, which keeps its text', async () => {
  await running();
  await composer(ada).fill('Please, only the day');
  await button(ada.page, NOW).waitFor();
  await accessible(ada.page, 'a draft that a running reply will read');
  await shot(ada.page, 'steering-wide');
  await composer(ada).press('Enter');
  await answers(ada, 'Vibe').getByText('MONDAY.').waitFor();
  await answers(ada, 'Vibe').getByText('last-write-wins for each field').waitFor();
  assert.equal(await answers(ada, 'Vibe').count(), 1);
  await completed(1);
  await button(ada.page, NOW).waitFor({ state: 'detached' });
});

test('Alt-Enter sends a message after the running reply, and only this one', async () => {
  await running();
  await composer(ada).fill('@vibe and the budget?');
  await button(ada.page, NOW).waitFor();
  await composer(ada).press('Alt+Enter');
  await message(ada.page, 'and the budget?').waitFor();
  await composer(ada).fill('Please, only the day');
  await button(ada.page, NOW).waitFor();
  await composer(ada).press('Enter');
  await answers(ada, 'Vibe').getByText('THE-BUDGET.').waitFor();
  await completed(2);
});

test('on a phone, a press chooses, and an emptied draft forgets the choice', async () => {
  await running();
  await ada.page.setViewportSize(PHONE);
  await composer(ada).fill('@vibe and the budget?');
  await button(ada.page, NOW).click();
  await button(ada.page, AFTER).waitFor();
  await accessible(ada.page, 'a draft for after the reply at 390 px');
  await shot(ada.page, 'steering-390');
  await composer(ada).fill('');
  await button(ada.page, AFTER).waitFor({ state: 'detached' });
  await composer(ada).fill('@vibe and the budget?');
  await button(ada.page, NOW).click();
  await button(ada.page, AFTER).waitFor();
  await button(ada.page, 'Send').click();
  await message(ada.page, 'and the budget?').waitFor();
  model.release();
  await answers(ada, 'Vibe').getByText('THE-BUDGET.').waitFor();
  await completed(2);
  await ada.page.setViewportSize(WIDE);
});

test('others, and drafts for others, do not steer the reply', async () => {
  await running();
  await bo.page.goto(new URL(ada.page.url()).pathname);
  await composer(bo).fill('I think so, too');
  await main(bo).getByText('Vibe writing').waitFor();
  assert.equal(await button(bo.page, NOW).count(), 0);
  await composer(ada).fill('@coder and you?');
  await main(ada).getByText('Vibe writing').waitFor();
  assert.equal(await button(ada.page, NOW).count(), 0);
  await composer(ada).fill('');
  model.release();
  await completed(1);
});

test('a message that waited offline until the reply had ended is posted as usual', async () => {
  await running();
  await ada.context.setOffline(true);
  await ada.page.getByText('You are offline').waitFor();
  await composer(ada).fill('@vibe and the budget?');
  await button(ada.page, NOW).waitFor();
  await composer(ada).press('Enter');
  await main(ada).getByText('Waiting to send').waitFor();
  model.release();
  await completed(1);
  await ada.context.setOffline(false);
  await toast(ada, 'The reply had ended');
  await answers(ada, 'Vibe').getByText('THE-BUDGET.').waitFor();
  assert.equal(await message(ada.page, '@vibe and the budget?').count(), 1);
  await completed(2);
});

test('no page logged an error', () => {
  assert.deepEqual([ada.errors, bo.errors], [[], []]);
});
