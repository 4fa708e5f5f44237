import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  accessible,
  box,
  button,
  message,
  person,
  PHONE,
  reply,
  setUp,
  shot,
  startThread,
  WIDE,
} from './lib/browser.mjs';
import { DRAFT, SAID } from './lib/model.mjs';
import { forkPanel, theme } from './lib/parts.mjs';
import { Server } from './lib/server.mjs';
import { startTeam } from './lib/team.mjs';

const { server, model, browser, ada, bo } = await startTeam({
  model: true,
  env: { OPENVIBE_RETRY_DELAYS: '60s' },
  bo: { theme: 'light' },
});
const headline = (p) => box(p.page, 'Headline');
const card = (p, text) => p.page.getByRole('article', { name: `Result: ${text}`, exact: true });

async function openFork(p, text, field = 'Explore with @vibe') {
  const m = message(p.page, text).first();
  await m.hover();
  await m.getByRole('button', { name: 'Deep dive from here' }).click();
  await box(p.page, field).waitFor();
}
async function explore(p, text, field = 'Explore with @vibe') {
  await box(p.page, field).fill(text);
  await p.page.keyboard.press('Enter');
  await forkPanel(p).getByRole('article').filter({ hasText: text }).waitFor();
}
async function answered(p, times) {
  await p.page.waitForFunction(
    (n) => document.querySelectorAll('aside article[aria-label^="Vibe,"]').length >= n,
    times,
  );
  await button(p.page, 'Resolve dive').and(p.page.locator(':enabled')).waitFor();
}
const saved = (p) => forkPanel(p).getByText('Saved', { exact: true }).waitFor();

test('resolving shows a skeleton while the draft is written', async () => {
  await startThread(ada.page, 'Friday or Monday for the launch?');
  await openFork(ada, 'Friday or Monday');
  await explore(ada, SAID);
  await answered(ada, 1);
  model.holdDrafts = true;
  await button(ada.page, 'Resolve dive').click();
  await forkPanel(ada).getByText('Vibe reads the dive and drafts the result.').waitFor();
  await button(ada.page, 'Write it myself').waitFor();
  await forkPanel(ada).getByRole('button', { name: 'Stop', exact: true }).waitFor();
  await accessible(ada.page, 'a draft that is made');
  await shot(ada.page, '30-resolve-drafting-dark');
  model.holdDrafts = false;
  model.release();
  await headline(ada).waitFor();
  assert.equal(await headline(ada).inputValue(), DRAFT.headline);
  await forkPanel(ada).getByText('Drafted by Vibe. Review it before posting.').waitFor();
  await ada.page.waitForFunction(() => document.activeElement?.tagName === 'TEXTAREA');
  await accessible(ada.page, 'the resolve editor');
  await shot(ada.page, '31-resolve-editor-dark');
  await theme(ada, 'light');
  await shot(ada.page, '32-resolve-editor-light');
  await theme(ada, 'dark');
});

test('a headline that is too long shows its length, and cannot be posted', async () => {
  await headline(ada).fill('x'.repeat(124));
  await forkPanel(ada).getByText('124/120').waitFor();
  await forkPanel(ada).getByText('Headline is 4 over').waitFor();
  assert.equal(await button(ada.page, 'Post result').isDisabled(), true);
  await accessible(ada.page, 'a headline that is too long');
  await headline(ada).fill('We launch on Monday');
  await saved(ada);
});

test('points move by key and button, lines are added and removed, and all of it survives a reload', async () => {
  const point = (n) => box(ada.page, `Key point ${n}`);
  await point(1).focus();
  await ada.page.keyboard.press('Alt+ArrowDown');
  await ada.page.waitForFunction(() => document.activeElement?.ariaLabel === 'Key point 2');
  assert.equal(await point(2).inputValue(), DRAFT.key_points[0].text);
  await button(ada.page, 'Move key point 2 up').click();
  assert.equal(await point(1).inputValue(), DRAFT.key_points[0].text);
  await button(ada.page, 'Add a point').click();
  await ada.page.waitForFunction(() => document.activeElement?.ariaLabel === 'Key point 3');
  await ada.page.keyboard.type('The room is free');
  await forkPanel(ada).getByText('no source').waitFor();
  await button(ada.page, 'Remove open question 1').click();
  await ada.page.getByLabel('Owner of action item 1').selectOption({ label: 'Bo Chen' });
  await ada.page.getByLabel('Due date of action item 1').fill('2020-02-03');
  await saved(ada);
  await ada.page.reload();
  await headline(ada).waitFor();
  assert.equal(await headline(ada).inputValue(), 'We launch on Monday');
  assert.equal(await point(3).inputValue(), 'The room is free');
  assert.equal(await ada.page.getByLabel('Due date of action item 1').inputValue(), '2020-02-03');
  assert.equal(await box(ada.page, 'Open question 1').count(), 0);
});

test('a source shows its message and links to it; sources can be added and removed', async () => {
  await button(ada.page, 'Source 1 of key point 1').click();
  const source = ada.page.getByRole('dialog', { name: 'Source 1 of key point 1' });
  await source.getByText('nobody deploys on a Friday. I will').waitFor();
  await accessible(ada.page, 'a source');
  await shot(ada.page, '33-resolve-source-dark');
  await source.getByRole('button', { name: 'Remove this source' }).click();
  assert.equal(await forkPanel(ada).getByText('no source').count(), 2);
  await button(ada.page, 'Add a source to key point 1').click();
  const picks = ada.page.getByRole('dialog', { name: 'Add a source to key point 1' });
  await picks.getByRole('button', { name: /nobody deploys/ }).click();
  await accessible(ada.page, 'picking sources');
  await ada.page.keyboard.press('Escape');
  await saved(ada);
  await button(ada.page, 'Source 1 of key point 1').click();
  await button(ada.page, 'Show in dive').click();
  await forkPanel(ada).locator('article.flash').getByText('nobody deploys on a Friday. I will').waitFor();
  await button(ada.page, 'Resolve dive').click();
  await headline(ada).waitFor();
});

test('the preview equals the card', async () => {
  await button(ada.page, 'Preview').click();
  const preview = card(ada, 'We launch on Monday');
  await preview.getByText('The room is free').waitFor();
  await preview.getByText('drafted by Vibe, edited by you').waitFor();
  await accessible(ada.page, 'the preview');
  await shot(ada.page, '34-resolve-preview-dark');
  await ada.page.setViewportSize(PHONE);
  await accessible(ada.page, 'the preview at 390 px');
  await button(ada.page, 'Edit').click();
  await accessible(ada.page, 'the editor at 390 px');
  await shot(ada.page, '35-resolve-390-dark');
  await ada.page.setViewportSize(WIDE);
});

test('two people on the same text: the observer sees the changes, and can take over', async () => {
  await bo.page.goto(ada.page.url());
  await headline(bo).waitFor();
  await headline(ada).fill('We launch on Monday morning');
  await saved(ada);
  await forkPanel(bo).getByText('Ada Lindholm is editing').waitFor();
  assert.equal(await headline(bo).inputValue(), 'We launch on Monday morning');
  assert.equal(await headline(bo).getAttribute('readonly'), '');
  await accessible(bo.page, 'somebody else is editing');
  await shot(bo.page, '36-resolve-other-light');
  await button(bo.page, 'Take over').click();
  await headline(bo).fill('We launch on Monday at nine');
  await saved(bo);
  await forkPanel(ada).getByText('Bo Chen is editing').waitFor();
  assert.equal(await headline(ada).inputValue(), 'We launch on Monday at nine');
});

test('conflicting edits of a field are both shown, and one is chosen', async () => {
  await button(ada.page, 'Take over').click();
  let meanwhile = 0; // Bo saves once between Ada's load and her save
  await ada.page.route('**/v1/forks/*/resolution', async (r) => {
    if (r.request().method() !== 'PATCH' || meanwhile++) return r.continue();
    await bo.page.request.fetch(r.request().url(), {
      method: 'PATCH',
      headers: {
        'x-workspace-id': r.request().headers()['x-workspace-id'],
        'if-match': r.request().headers()['if-match'],
        origin: server.base,
      },
      data: { headline: 'Bo wants Tuesday' },
    });
    return r.continue();
  });
  await headline(ada).fill('Ada stays with Monday');
  const clash = ada.page.getByRole('alert', { name: 'Two versions of the same text' });
  await clash.getByText('Bo wants Tuesday').waitFor();
  await clash.getByText('Ada stays with Monday').waitFor();
  assert.equal(await headline(ada).inputValue(), 'Ada stays with Monday');
  assert.equal(await button(ada.page, 'Post result').isDisabled(), true);
  await accessible(ada.page, 'two texts of one field');
  await shot(ada.page, '37-resolve-clash-dark');
  await clash.getByRole('button', { name: 'Use theirs' }).click();
  assert.equal(await headline(ada).inputValue(), 'Bo wants Tuesday');
  await button(ada.page, 'Restore').click();
  assert.equal(await headline(ada).inputValue(), 'Ada stays with Monday');
  await saved(ada);
});

test('a stale draft is marked, and a redraft asks before it replaces edits', async () => {
  await button(ada.page, 'Back to the dive').click();
  await explore(ada, 'The fair is on Wednesday.');
  await answered(ada, 2);
  await button(ada.page, 'Resolve dive').click();
  await forkPanel(ada).getByText('2 new messages since this draft').waitFor();
  await accessible(ada.page, 'a stale draft');
  await shot(ada.page, '38-resolve-stale-dark');
  await box(ada.page, 'What should change? (optional)').fill('Name the fair');
  await button(ada.page, 'Redraft').click();
  await forkPanel(ada).getByText('A new draft replaces all edits.').waitFor();
  await accessible(ada.page, 'asking before a redraft');
  model.draft = { ...DRAFT, headline: 'We launch on Monday, the fair is on Wednesday' };
  await button(ada.page, 'Replace').click();
  await model.until((b) => /Name the fair/.test(String(b.messages.at(-1).content)));
  await ada.page.waitForFunction(
    (t) => document.querySelector('aside textarea')?.value === t,
    model.draft.headline,
  );
  await button(ada.page, 'Restore').waitFor();
  await button(ada.page, 'Discard').click();
});

test('a failed post keeps everything', async () => {
  await ada.page.route('**/v1/forks/*/publish', (r) => r.abort());
  await headline(ada).fill('Launch on Monday');
  await saved(ada);
  await button(ada.page, 'Post result').click();
  await forkPanel(ada)
    .getByText(/^Not posted\./)
    .waitFor();
  assert.equal(await headline(ada).inputValue(), 'Launch on Monday');
  await accessible(ada.page, 'a post that failed');
  await shot(ada.page, '39-resolve-post-failed-dark');
  await ada.page.unroute('**/v1/forks/*/publish');
});

test('posted: the card is in the thread for everyone, and has the focus', async () => {
  await headline(bo).waitFor();
  await headline(ada).press('Control+Enter');
  await card(ada, 'Launch on Monday').waitFor();
  await ada.page.getByText('Result posted to the thread').waitFor({ state: 'attached' });
  await ada.page.waitForFunction(() => document.activeElement?.ariaLabel === 'Result: Launch on Monday');
  assert.equal(await forkPanel(ada).count(), 0);
  await card(bo, 'Launch on Monday').waitFor();
  await forkPanel(bo).getByText('Ada Lindholm posted the result').waitFor();
  await accessible(bo.page, 'somebody else posted it');
  await shot(bo.page, '40-resolve-closed-light');
  await forkPanel(bo).getByRole('link', { name: 'Show the result' }).click();
  await bo.page.waitForFunction(() => !document.querySelector('aside'));
  await accessible(ada.page, 'a card');
  await shot(ada.page, '41-card-dark');
});

test('each reader’s expansion of a card survives a reload', async () => {
  const mine = card(ada, 'Launch on Monday');
  await mine.getByRole('button', { name: /1 action/ }).click();
  await mine.getByRole('checkbox', { name: 'Book the room' }).waitFor();
  await accessible(ada.page, 'a card with everything');
  await shot(ada.page, '42-card-open-dark');
  await card(bo, 'Launch on Monday').getByRole('button', { name: 'Headline only' }).click();
  await bo.page.reload();
  await ada.page.reload();
  await mine.getByRole('checkbox', { name: 'Book the room' }).waitFor();
  await card(bo, 'Launch on Monday').getByRole('button', { name: 'Show 2 points' }).click();
  await card(bo, 'Launch on Monday').getByText('Nobody deploys on a Friday').waitFor();
});

test('checking off an item is live for everyone; a rejected change is reverted with a notice', async () => {
  const tick = (p) => card(p, 'Launch on Monday').getByRole('checkbox', { name: 'Book the room' });
  await card(bo, 'Launch on Monday')
    .getByRole('button', { name: /1 action/ })
    .click();
  await tick(ada).check();
  await bo.page.waitForFunction(() => document.querySelector('.rcard input[type=checkbox]')?.checked);
  await bo.page.route('**/v1/action-items/*', (r) =>
    r.fulfill({ status: 403, json: { error: { type: 'forbidden', code: 'x', message: 'Not now.' } } }),
  );
  await tick(bo).click();
  await bo.page.getByText('Couldn’t save the change. Not now.').first().waitFor({ state: 'attached' });
  assert.equal(await tick(bo).isChecked(), true);
  await bo.page.unroute('**/v1/action-items/*');
});

test('a card’s source opens the dive at the message', async () => {
  await card(ada, 'Launch on Monday').getByRole('link', { name: 'Source 1' }).first().click();
  await forkPanel(ada).locator('article.flash').getByText('nobody deploys on a Friday. I will').waitFor();
  await button(ada.page, 'Close the dive').click();
});

/** Path of the thread whose result has two versions. */
let launchThread;
test('version 2 replaces the first one, and shows its changes', async () => {
  launchThread = new URL(ada.page.url()).pathname;
  await card(ada, 'Launch on Monday').getByRole('button', { name: 'Edit result' }).click();
  await headline(ada).waitFor();
  assert.equal(await headline(ada).inputValue(), 'Launch on Monday');
  await forkPanel(ada).getByText('No changes since it was posted').waitFor();
  assert.equal(await button(ada.page, 'Post result').isDisabled(), true);
  await headline(ada).fill('Launch on Monday at nine');
  await button(ada.page, 'Add a question').click();
  await ada.page.keyboard.type('Who opens the doors?');
  await saved(ada);
  await button(ada.page, 'Changes since version 1').click();
  const changes = ada.page.getByRole('dialog', { name: 'Changes since version 1' });
  await changes.getByText('Who opens the doors?').waitFor();
  await accessible(ada.page, 'the changes');
  await shot(ada.page, '43-changes-dark');
  await ada.page.keyboard.press('Escape');
  await button(ada.page, 'Post result').click();
  await card(ada, 'Launch on Monday at nine').waitFor();
  for (const p of [ada, bo]) {
    await card(p, 'Launch on Monday at nine')
      .getByRole('button', { name: 'Version 2, all versions' })
      .waitFor();
    await card(p, 'Launch on Monday').getByText('Replaced by').waitFor();
  }
  // Unread, the card shows its action items. Checked ones stay checked.
  await card(bo, 'Launch on Monday at nine').getByRole('button', { name: 'Hide details' }).waitFor();
  const again = card(bo, 'Launch on Monday at nine').getByRole('checkbox');
  assert.equal(await again.isChecked(), true);
  await card(bo, 'Launch on Monday at nine').getByRole('button', { name: 'Version 2, all versions' }).click();
  await accessible(bo.page, 'the versions');
  await bo.page.getByRole('menuitem', { name: 'Changes since version 1' }).click();
  await bo.page.getByRole('dialog').getByText('Who opens the doors?').waitFor();
  await accessible(bo.page, 'the changes, light');
  await shot(bo.page, '44-changes-light');
  await bo.page.keyboard.press('Escape');
});

test('a card shows when its dive has new messages', async () => {
  await card(bo, 'Launch on Monday at nine').getByRole('button', { name: 'Reopen' }).click();
  await box(bo.page, 'Explore with @vibe').waitFor();
  await explore(bo, 'And if it rains?');
  await card(ada, 'Launch on Monday at nine').getByText('The dive has new messages').waitFor();
  await accessible(ada.page, 'a stale card');
  await shot(ada.page, '45-cards-dark');
  await ada.page.setViewportSize(PHONE);
  await accessible(ada.page, 'cards at 390 px');
  await shot(ada.page, '46-cards-390-dark');
  await ada.page.setViewportSize(WIDE);
});

test('a stopped draft keeps the posted text, or leaves empty fields', async () => {
  await answered(bo, 3);
  model.holdDrafts = true;
  await button(bo.page, 'Resolve dive').click();
  await forkPanel(bo).getByRole('button', { name: 'Stop', exact: true }).click();
  await forkPanel(bo).getByText('Stopped. Try again, or continue with the text below.').waitFor();
  assert.equal(await headline(bo).inputValue(), 'Launch on Monday at nine');
  await button(bo.page, 'Close the dive').click();
  await bo.page.goto('/northwind/c/general');
  await startThread(bo.page, 'And if it rains?');
  await openFork(bo, 'And if it rains?');
  await explore(bo, 'We need umbrellas.');
  await answered(bo, 1);
  await button(bo.page, 'Resolve dive').click();
  await forkPanel(bo).getByRole('button', { name: 'Stop', exact: true }).click();
  await forkPanel(bo).getByText('Stopped. Try again, or write it yourself.').waitFor();
  assert.equal(await headline(bo).inputValue(), '');
  await accessible(bo.page, 'a draft that was stopped');
  await shot(bo.page, '47-resolve-stopped-light');
});

test('a result can be written by hand', async () => {
  await button(bo.page, 'Try again').click();
  await button(bo.page, 'Write it myself').click();
  await headline(bo).fill('Umbrellas for everyone');
  await saved(bo);
  model.holdDrafts = false;
  model.release();
  await button(bo.page, 'Post result').click();
  await card(bo, 'Umbrellas for everyone').getByText('written by you').waitFor();
});

test('without a network, the text is kept and saved later', async () => {
  await card(bo, 'Umbrellas for everyone').getByRole('button', { name: 'Edit result' }).click();
  await headline(bo).waitFor();
  await bo.context.setOffline(true);
  await headline(bo).fill('Umbrellas for all');
  await forkPanel(bo).getByText('Kept on this device until').waitFor();
  await accessible(bo.page, 'the editor offline');
  await bo.context.setOffline(false);
  await saved(bo);
});

test('a deleted source shows a notice', async () => {
  await button(bo.page, 'Add a point').click();
  await bo.page.keyboard.type('It may rain');
  await button(bo.page, 'Add a source to key point 1').click();
  await bo.page
    .getByRole('dialog')
    .getByRole('button', { name: /We need umbrellas/ })
    .click();
  await bo.page.keyboard.press('Escape');
  await saved(bo);
  await button(bo.page, 'Back to the dive').click();
  const said = forkPanel(bo).getByRole('article').filter({ hasText: 'We need umbrellas.' });
  await said.hover();
  await said.getByRole('button', { name: 'More actions' }).click();
  await bo.page.getByRole('menuitem', { name: 'Delete' }).click();
  await button(bo.page, 'Delete message').click();
  await button(bo.page, 'Resolve dive').click();
  await forkPanel(bo).getByText('The dive changed since this draft').waitFor();
  await button(bo.page, 'Source 1 of key point 1').click();
  await bo.page.getByText('This message was deleted. Its text is no longer available.').waitFor();
  await accessible(bo.page, 'a source that was deleted');
  await bo.page.keyboard.press('Escape');
});

test('a viewer sees a notice instead of the editor', async () => {
  const address = bo.page.url();
  await ada.page.goto('/northwind/settings/members');
  await ada.page.getByLabel('Role of Bo Chen').selectOption('viewer');
  await bo.page.goto(address);
  await forkPanel(bo).getByText('You are a viewer here').waitFor();
  await accessible(bo.page, 'the editor for a viewer');
});

test('without a model, the draft consists of quotes and is marked as such', async () => {
  const alone = await new Server({}).start();
  try {
    const mia = await person(browser, alone.base);
    await setUp(mia.page, { name: 'Mia Berg', email: 'mia@example.com' });
    await startThread(mia.page, 'Where do we meet?');
    await openFork(mia, 'Where do we meet?', 'Explore together');
    await explore(mia, 'Decision: we meet in the library.', 'Explore together');
    await button(mia.page, 'Resolve dive').click();
    await forkPanel(mia)
      .getByText('Drafted without a model, with quotes from the dive. Review it before posting.')
      .waitFor();
    assert.notEqual(await headline(mia).inputValue(), '');
    await accessible(mia.page, 'a draft without a model');
    await shot(mia.page, '48-resolve-builtin-dark');
    await button(mia.page, 'Post result').click();
    await mia.page
      .getByRole('article', { name: /^Result: / })
      .getByText('drafted without a model')
      .waitFor();
    assert.deepEqual(mia.errors, []);
  } finally {
    await alone.close();
  }
});

test('What it saw counts the result that version 2 replaced', async () => {
  const page = await ada.context.newPage();
  page.setDefaultTimeout(60_000);
  await page.goto(launchThread);
  await reply(page, '@coder which day is it?');
  await page
    .getByRole('article', { name: /^Coder, / })
    .getByRole('button', { name: /What it saw/ })
    .click();
  const saw = page.getByRole('region', { name: 'What Coder saw' });
  await saw.getByText('1 replaced result left out').waitFor();
  assert.equal(await saw.getByRole('listitem').filter({ hasText: '[Ada' }).count(), 0);
  await page.close();
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
