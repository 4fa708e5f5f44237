// Focus management, and keyboard use of dialogs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, box, button, message, shot, startThread } from './lib/browser.mjs';
import { side } from './lib/parts.mjs';
import { startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam();
/** Accessible name of the focused element. */
const focused = (page) =>
  page.evaluate(() => {
    const el = document.activeElement;
    return el.getAttribute('aria-label') ?? el.labels?.[0]?.textContent.trim() ?? el.textContent.trim();
  });
const becomes = (page, name) =>
  page.waitForFunction((n) => {
    const el = document.activeElement;
    const own = el.getAttribute('aria-label') ?? el.labels?.[0]?.textContent.trim() ?? el.textContent.trim();
    return own === n;
  }, name);

test('a dialog opens with the focus in its first field, and Enter submits it', async () => {
  const { page } = ada;
  for (const [open, field] of [
    ['New channel', 'Name'],
    ['New message', 'Find a person or an agent'],
    ['Invite people', 'They join as'],
    ['About #general', 'Name'],
  ]) {
    await button(page, open).click();
    await becomes(page, field);
    const last = await page
      .getByRole('dialog')
      .evaluate((d) => [...d.querySelectorAll('button')].at(-1).getAttribute('aria-label'));
    assert.equal(last, 'Close', `${open}: Close comes last`);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    assert.equal(await focused(page), open, 'the focus goes back to what opened it');
  }
  await button(page, 'New channel').click();
  await becomes(page, 'Name');
  await page.keyboard.type('launch');
  await page.keyboard.press('Enter');
  await box(page, 'Start a thread in #launch').waitFor();
});

test('a dialog without a field focuses its main button', async () => {
  const { page } = ada;
  await side(ada).getByRole('link', { name: 'general' }).click();
  await startThread(page, 'To be deleted');
  await message(page, 'To be deleted').hover();
  await page
    .getByRole('toolbar', { name: 'Message actions' })
    .getByRole('button', { name: 'More actions' })
    .click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await becomes(page, 'Delete message');
  await page.keyboard.press('Escape');
});

test('New message by keyboard alone: find, Enter selects, Enter starts, then type', async () => {
  const { page } = ada;
  await button(page, 'New message').click();
  const find = box(page, 'Find a person or an agent');
  await becomes(page, 'Find a person or an agent');
  const first = await find.getAttribute('aria-activedescendant');
  await page.keyboard.press('ArrowDown');
  assert.notEqual(await find.getAttribute('aria-activedescendant'), first, 'arrows move the highlight');
  await page.keyboard.press('ArrowUp');
  assert.equal(await find.getAttribute('aria-activedescendant'), first);
  await page.keyboard.type('bo');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByText('selected').waitFor();
  assert.equal(await find.inputValue(), '', 'ready for the next person');
  await accessible(page, 'New message with somebody chosen');
  await shot(page, '30-new-message-dark');
  await page.keyboard.press('Enter');
  await becomes(page, 'Message Bo Chen');
  await page.keyboard.type('Straight into the box');
  await page.keyboard.press('Enter');
  await message(page, 'Straight into the box').waitFor();
  // The switcher also opens the conversation, with the focus in its composer.
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('Bo Chen');
  await page
    .getByRole('option', { name: /^Bo Chen/ })
    .first()
    .waitFor();
  await page.keyboard.press('Enter');
  await becomes(page, 'Message Bo Chen');
});

test('opening a channel from the sidebar focuses its heading', async () => {
  await side(bo).getByRole('link', { name: 'random' }).click();
  await bo.page.waitForFunction(() => document.activeElement.matches('h1'));
  assert.equal(await focused(bo.page), 'random');
});

test('opening a thread focuses its messages: J and K work immediately', async () => {
  const { page } = bo;
  await side(bo).getByRole('link', { name: 'general' }).click();
  await page.locator('main').getByRole('link', { name: 'To be deleted' }).click();
  await becomes(page, 'Messages');
  await page.keyboard.press('j');
  assert.match(await focused(page), /^Ada Lindholm, /);
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
