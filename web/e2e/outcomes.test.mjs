import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { accessible, button, PHONE, shot, WIDE } from './lib/browser.mjs';
import { forkPanel, main, theme } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam({ bo: { theme: 'light' } });
let ids;
const item = (p, text) => p.page.getByRole('checkbox', { name: text, exact: true });
/** Date in the API's format, the given number of days from today in local time. */
const day = (days) => {
  const at = new Date(Date.now() + days * 86_400_000);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 10);
};

/** Starts a fork with one message in a new thread, and resolves it as `who`. */
async function decide(who, channel, question, resolution) {
  const { thread, message } = await api(who, 'POST', `channels/${channel}/threads`, { content: question });
  const { fork } = await api(who, 'POST', `threads/${thread.id}/forks`, {
    message_id: message.id,
    agent_id: null,
  });
  const said = await api(who, 'POST', `forks/${fork.id}/messages`, { content: 'Let us settle this.' });
  const sources = [said.message.id];
  const lines = (list = []) => list.map((x) => ({ sources, ...(typeof x === 'string' ? { text: x } : x) }));
  return api(who, 'POST', `forks/${fork.id}/publish`, {
    resolution: {
      headline: resolution.headline,
      conclusion: resolution.conclusion ?? '',
      key_points: lines(resolution.points),
      action_items: lines(resolution.actions),
      open_questions: lines(resolution.questions),
      deferred_items: [],
    },
  });
}

before(async () => {
  const { channelId, member } = await known(ada);
  ids = {
    general: channelId('general'),
    random: channelId('random'),
    ada: member('Ada Lindholm').user_id,
    bo: member('Bo Chen').user_id,
  };
});

test('both empty pages explain their content', async () => {
  await ada.page.goto('/northwind/actions');
  await ada.page.getByRole('heading', { name: 'Action items', level: 1 }).waitFor();
  await ada.page.getByText('Nothing to do').waitFor();
  await accessible(ada.page, 'no actions');
  await ada.page.goto('/northwind/decisions');
  await ada.page.getByText('No decisions yet').waitFor();
  await accessible(ada.page, 'no decisions');
});

test('an action item assigned to me appears immediately, in its group', async () => {
  await ada.page.goto('/northwind/actions');
  await ada.page.getByText('Nothing to do').waitFor();
  await decide(bo, ids.general, 'Friday or Monday for the launch?', {
    headline: 'Launch on Monday: two quiet days before the fair',
    conclusion: 'Monday leaves time to mend what the first visitors find.',
    points: ['Nobody deploys on a Friday', 'The fair is on Wednesday'],
    actions: [
      { text: 'Book the room', owner_id: ids.ada, due: day(-3) },
      { text: 'Write the release notes', owner_id: ids.ada, due: day(0) },
      { text: 'Ask the printer for a price', owner_id: ids.ada, due: day(40) },
      { text: 'Thank the testers', owner_id: ids.ada },
      { text: 'Tell the press', owner_id: ids.bo },
      { text: 'Water the plants' },
    ],
    questions: ['Who opens the doors?'],
  });
  for (const title of ['Overdue', 'This week', 'Later', 'No date'])
    await main(ada)
      .getByRole('heading', { name: new RegExp(`^${title}`) })
      .waitFor();
  await main(ada).getByText('You have 4 open items').waitFor();
  await main(ada)
    .getByText(/Overdue since/)
    .waitFor();
  assert.equal(await item(ada, 'Tell the press').count(), 0);
  await accessible(ada.page, 'my actions');
  await shot(ada.page, '50-actions-dark');
  await theme(ada, 'light');
  await shot(ada.page, '51-actions-light');
  await theme(ada, 'dark');
  await ada.page.setViewportSize(PHONE);
  await accessible(ada.page, 'my actions at 390 px');
  await shot(ada.page, '52-actions-390-dark');
  await ada.page.setViewportSize(WIDE);
});

test('a completed item is updated everywhere, and a slip can be undone in place', async () => {
  const link = ada.page.getByRole('link', { name: /^Action items/ });
  await link.getByText('4', { exact: false }).waitFor();
  await item(ada, 'Book the room').check();
  await main(ada).getByText('You have 3 open items').waitFor();
  await item(ada, 'Book the room').uncheck();
  await item(ada, 'Book the room').check();
  await button(ada.page, 'Done').click();
  await item(ada, 'Book the room').waitFor();
  assert.equal(new URL(ada.page.url()).search, '?show=done');
  await button(ada.page, 'Open').click();
  await item(ada, 'Thank the testers').waitFor();
  await item(ada, 'Book the room').waitFor({ state: 'detached' });
});

test('owner and due date are changed in place; both people’s lists follow', async () => {
  await bo.page.goto('/northwind/actions');
  await item(bo, 'Tell the press').waitFor();
  await button(ada.page, 'Unassigned').click();
  await item(ada, 'Water the plants').waitFor();
  await accessible(ada.page, 'actions without an owner');
  await ada.page.getByLabel('Owner of “Water the plants”').selectOption({ label: 'Bo Chen' });
  await item(bo, 'Water the plants').waitFor();
  await ada.page.getByLabel('Due date of “Water the plants”').fill(day(0));
  await main(bo).getByText('Due today').waitFor();
  await button(ada.page, 'Everyone’s').click();
  await item(ada, 'Tell the press').waitFor();
  await ada.page.reload();
  await item(ada, 'Tell the press').waitFor();
  assert.equal(new URL(ada.page.url()).search, '?whose=all');
});

test('a rejected change is reverted, with a notice', async () => {
  await ada.page.route('**/v1/action-items/*', (r) => r.abort());
  await item(ada, 'Tell the press').click();
  await ada.page
    .getByText(/^Couldn’t save the change\./)
    .first()
    .waitFor({ state: 'attached' });
  assert.equal(await item(ada, 'Tell the press').isChecked(), false);
  await ada.page.unroute('**/v1/action-items/*');
});

test('an action item links to its result and its dive', async () => {
  await main(ada).getByRole('link', { name: 'Launch on Monday' }).first().click();
  await ada.page
    .getByRole('article', { name: 'Result: Launch on Monday: two quiet days before the fair' })
    .waitFor();
  await ada.page.goBack();
  // The thread's resolution message also has an "Open dive" link, so wait for the list.
  await item(ada, 'Tell the press').waitFor();
  await main(ada).getByRole('link', { name: 'Open dive' }).first().click();
  await forkPanel(ada).getByRole('article').getByText('Let us settle').waitFor();
});

test('a list that failed to load can be retried', async () => {
  for (const [path, route, words, sign] of [
    ['actions?whose=all', '**/v1/action-items?*', 'Couldn’t load action items', 'Tell the press'],
    ['decisions', '**/v1/decisions?*', 'Couldn’t load decisions', 'Launch on Monday'],
  ]) {
    let broken = true;
    await ada.page.route(route, (r) =>
      broken
        ? r.fulfill({ status: 503, json: { error: { type: 'unavailable', code: 'x', message: 'Away.' } } })
        : r.continue(),
    );
    await ada.page.goto(`/northwind/${path}`);
    await ada.page.getByText(words).waitFor();
    await accessible(ada.page, words);
    broken = false;
    await button(ada.page, 'Try again').click();
    await main(ada).getByText(sign).first().waitFor();
    await ada.page.unroute(route);
  }
});

test('decisions are searched, filtered by channel, newest first, and link to their sources', async () => {
  await ada.page.goto('/northwind/decisions');
  await decide(ada, ids.random, 'Tea or coffee?', {
    headline: 'Tea in the morning, coffee after lunch',
    points: ['The kettle is faster before ten'],
  });
  const titles = () => main(ada).getByRole('heading', { level: 2 }).allTextContents();
  await main(ada)
    .getByRole('link', { name: /^Tea in the morning/ })
    .waitFor();
  assert.deepEqual(await titles(), [
    'Tea in the morning, coffee after lunch',
    'Launch on Monday: two quiet days before the fair',
  ]);
  await main(ada)
    .getByRole('button', { name: /2 points/ })
    .click();
  await main(ada).getByText('Nobody deploys on a Friday').waitFor();
  await accessible(ada.page, 'decisions');
  await shot(ada.page, '53-decisions-dark');
  await theme(ada, 'light');
  await shot(ada.page, '54-decisions-light');
  await theme(ada, 'dark');
  await ada.page.setViewportSize(PHONE);
  await accessible(ada.page, 'decisions at 390 px');
  await shot(ada.page, '55-decisions-390-dark');
  await ada.page.setViewportSize(WIDE);
  await ada.page.getByRole('searchbox', { name: 'Search decisions' }).fill('kettle');
  await ada.page.waitForFunction(() => document.querySelectorAll('main h2').length === 1);
  assert.equal(new URL(ada.page.url()).search, '?q=kettle');
  await ada.page.reload();
  await main(ada)
    .getByRole('link', { name: /^Tea in the morning/ })
    .waitFor();
  assert.equal((await titles()).length, 1);
  await ada.page.getByRole('searchbox', { name: 'Search decisions' }).fill('zzzz');
  await ada.page.getByText('No matching decisions for “zzzz”').waitFor();
  await accessible(ada.page, 'no matching decisions');
  await button(ada.page, 'Show all decisions').click();
  await ada.page.waitForFunction(() => document.querySelectorAll('main h2').length === 2);
  await ada.page.getByLabel('Channel', { exact: true }).selectOption('general');
  await ada.page.waitForFunction(() => document.querySelectorAll('main h2').length === 1);
  assert.deepEqual(await titles(), ['Launch on Monday: two quiet days before the fair']);
});

test('a long list of decisions is loaded in pages', async () => {
  for (let i = 1; i <= 32; i++)
    await decide(bo, ids.random, `Question ${i}`, { headline: `Answer ${i}`, points: ['Because.'] });
  await ada.page.goto('/northwind/decisions');
  await main(ada).getByRole('link', { name: 'Answer 32', exact: true }).waitFor();
  const list = ada.page.getByRole('region', { name: 'Decisions, newest first' });
  await list.press('End');
  await main(ada)
    .getByRole('link', { name: /^Launch on Monday/ })
    .waitFor();
  const links = main(ada).getByRole('heading', { level: 2 });
  assert.equal(await links.count(), 34);
});

test('both pages work by keyboard alone', async () => {
  await ada.page.goto('/northwind/actions?whose=all');
  await item(ada, 'Tell the press').focus();
  await ada.page.keyboard.press('Space');
  assert.equal(await item(ada, 'Tell the press').isChecked(), true);
  await ada.page.keyboard.press('Tab');
  await ada.page.waitForFunction(() => document.activeElement?.ariaLabel === 'Due date of “Tell the press”');
  await ada.page.keyboard.type('01022031');
  await ada.page.keyboard.press('Enter');
  await main(ada)
    .getByText(/^Due \d+ \w+ 2031$/)
    .waitFor();
  await ada.page.getByLabel('Owner of “Tell the press”').focus();
  await ada.page.keyboard.press('A'); // Ada
  await main(ada).getByText('You have 3 open items').waitFor();
  await button(ada.page, 'Done').focus();
  await ada.page.keyboard.press('Enter');
  await item(ada, 'Tell the press').waitFor();
});

test('offline, the lists stay readable', async () => {
  await ada.context.setOffline(true);
  await ada.page.getByText('You are offline').waitFor();
  await item(ada, 'Tell the press').waitFor();
  await accessible(ada.page, 'actions offline');
  await ada.context.setOffline(false);
  await ada.page.getByText('You are offline').waitFor({ state: 'detached' });
});

test('a viewer reads and cannot change anything', async () => {
  await api(ada, 'PATCH', `members/${ids.bo}`, { role: 'viewer' });
  await bo.page.goto('/northwind/actions?whose=all');
  await item(bo, 'Thank the testers').waitFor();
  assert.equal(await item(bo, 'Thank the testers').isDisabled(), true);
  assert.equal(await bo.page.locator('main select').count(), 0);
  await accessible(bo.page, 'actions for a viewer');
  await main(bo)
    .getByRole('link', { name: /^Launch on Monday/ })
    .first()
    .click();
  const card = bo.page.getByRole('article', { name: /^Result: Launch on Monday/ });
  await card.getByRole('button', { name: /6 actions/ }).click();
  assert.equal(await card.getByRole('checkbox').first().isDisabled(), true);
  assert.equal(await card.getByRole('button', { name: 'Edit result' }).count(), 0);
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
