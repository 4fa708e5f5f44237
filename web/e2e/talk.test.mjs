import assert from 'node:assert/strict';
import { test } from 'node:test';
import { box, button, message, reply, startThread } from './lib/browser.mjs';
import { composer, messageList, side } from './lib/parts.mjs';
import { startTeam } from './lib/team.mjs';

const { server, ada, bo } = await startTeam();
const go = (p, channel) => side(p).getByRole('link', { name: channel }).click();

test('presence: both people see each other online', async () => {
  await side(ada).getByRole('link', { name: 'Members' }).click();
  await ada.page.getByRole('heading', { name: '2 members' }).waitFor();
  await ada.page.waitForFunction(() => document.querySelectorAll('.presence.on').length === 2);
  await go(ada, 'general');
});

test('a thread and its reply appear immediately for the other person', async () => {
  await startThread(ada.page, 'Friday or Monday for the launch?\n\nThe fair is on **Wednesday**.');
  assert.equal(
    await composer(ada).evaluate((el) => el === document.activeElement),
    true,
    'one goes on writing',
  );
  await bo.page.locator('main').getByRole('link', { name: 'Friday or Monday for the launch?' }).click();
  await message(bo.page, 'The fair is on').getByText('Wednesday', { exact: true }).waitFor();
  await reply(bo.page, 'I vote for Monday');
  await message(ada.page, 'I vote for Monday').waitFor();
});

test('typing is shown, and ends with the message', async () => {
  await composer(bo).pressSequentially('Because');
  await ada.page.getByText('Bo Chen is typing…').waitFor();
  await bo.page.keyboard.press('Enter');
  await message(ada.page, 'Because').waitFor();
  await ada.page.getByText('Bo Chen is typing…').waitFor({ state: 'detached' });
});

test('my message is never shown twice, not even briefly', async () => {
  await ada.page.evaluate(() => {
    window.most = 0;
    new MutationObserver(() => {
      const n = [...document.querySelectorAll('article')].filter((a) =>
        a.textContent.includes('once and only once'),
      ).length;
      window.most = Math.max(window.most, n);
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
  });
  await reply(ada.page, 'once and only once');
  await message(bo.page, 'once and only once').waitFor();
  assert.equal(await ada.page.evaluate(() => window.most), 1);
});

test('reactions of both people add up, live', async () => {
  const mine = message(ada.page, 'I vote for Monday');
  await mine.hover();
  await mine.getByRole('button', { name: 'React', exact: true }).click();
  await box(ada.page, 'Find an emoji').fill('tada');
  await ada.page.keyboard.press('Enter');
  const theirs = message(bo.page, 'I vote for Monday').getByRole('button', { name: '🎉 1' });
  await theirs.click();
  await mine.getByRole('button', { name: '🎉 2' }).waitFor();
  await message(bo.page, 'I vote for Monday').getByRole('button', { name: '🎉 2' }).click();
  await mine.getByRole('button', { name: '🎉 1' }).waitFor();
});

test('Up in an empty composer edits my last message; the other person sees the new text', async () => {
  await composer(ada).click();
  await ada.page.keyboard.press('ArrowUp');
  await box(ada.page, 'Edit message').fill('once and **for all**');
  await ada.page.keyboard.press('Enter');
  const edited = message(bo.page, 'once and for all');
  await edited.getByText('(edited)').waitFor();
});

test('deleting asks for confirmation and leaves a tombstone for both people', async () => {
  const mine = message(ada.page, 'once and for all');
  await mine.hover();
  await mine.getByRole('button', { name: 'More actions' }).click();
  await ada.page.getByRole('menuitem', { name: 'Delete' }).click();
  await button(ada.page, 'Delete message').click();
  await message(bo.page, 'This message was deleted.').waitFor();
  await message(bo.page, 'once and for all').waitFor({ state: 'detached' });
});

test('a mention counts in the sidebar and the title, and reading clears it', async () => {
  await go(bo, 'random');
  await box(bo.page, 'Start a thread in #random').waitFor();
  await composer(ada).pressSequentially('@b');
  await ada.page.getByRole('option', { name: /Bo Chen/ }).waitFor();
  await ada.page.keyboard.press('Enter');
  await ada.page.keyboard.type('can you book the room?');
  await ada.page.keyboard.press('Enter');
  await side(bo).getByRole('link', { name: 'general 1 mention', exact: true }).waitFor();
  await bo.page.waitForFunction(() => document.title.startsWith('(1)'));
  await go(bo, 'general');
  await bo.page
    .locator('main')
    .getByRole('link', { name: /Friday or Monday/ })
    .click();
  await message(bo.page, 'can you book the room?').waitFor();
  await bo.page.getByRole('separator', { name: 'New messages' }).waitFor();
  await side(bo).getByRole('link', { name: 'general', exact: true }).waitFor();
  await bo.page.waitForFunction(() => !document.title.startsWith('('));
});

test('a thread marked as unread is bold again', async () => {
  const asked = message(bo.page, 'can you book the room?');
  await asked.focus();
  await bo.page.keyboard.press('u');
  await side(bo).getByRole('link', { name: 'general 1 mention', exact: true }).waitFor();
  await go(bo, 'random');
});

test('a private channel is visible only to its members', async () => {
  await button(ada.page, 'New channel').click();
  await box(ada.page, 'Name').fill('Fair Plans');
  await ada.page.getByLabel(/Private/).check();
  await button(ada.page, 'Create channel').click();
  await startThread(ada.page, 'Only for some of us', 'fair-plans');
  assert.equal(await side(bo).getByText('fair-plans').count(), 0);
  await go(ada, 'fair-plans');
  await button(ada.page, 'About #fair-plans').click();
  const people = ada.page.getByLabel('Add someone to #fair-plans');
  const bos = people.locator('option', { hasText: 'Bo Chen' });
  await bos.waitFor({ state: 'attached' });
  await people.selectOption((await bos.getAttribute('value')) ?? '');
  await button(ada.page, 'Add').click();
  await side(bo)
    .getByRole('link', { name: /fair-plans/ })
    .click();
  await bo.page.locator('main').getByRole('link', { name: 'Only for some of us' }).waitFor();
  await ada.page.keyboard.press('Escape');
});

test('a direct message is one running conversation', async () => {
  await button(ada.page, 'New message').click();
  await ada.page
    .getByRole('dialog')
    .getByRole('button', { name: /Bo Chen/ })
    .click();
  await button(ada.page, 'Start conversation').click();
  const mine = box(ada.page, 'Message Bo Chen');
  await mine.click();
  // Typing continues without interruption: the composer is kept when the conversation starts above it.
  for (const text of ['Just between us', 'the second line']) {
    await ada.page.keyboard.type(text);
    await ada.page.keyboard.press('Enter');
  }
  await side(bo)
    .getByRole('link', { name: /Ada Lindholm.*2 unread/ })
    .click();
  await message(bo.page, 'the second line').waitFor();
  await box(bo.page, 'Message Ada Lindholm').fill('Got it');
  await bo.page.keyboard.press('Enter');
  await message(ada.page, 'Got it').waitFor();
  assert.equal(await ada.page.getByRole('article').count(), 3);
});

test('a draft survives a reload', async () => {
  await box(ada.page, 'Message Bo Chen').fill('half a thought');
  await ada.page.evaluate(() => dispatchEvent(new Event('pagehide')));
  await ada.page.reload();
  await box(ada.page, 'Message Bo Chen').waitFor();
  assert.equal(await box(ada.page, 'Message Bo Chen').inputValue(), 'half a thought');
  await box(ada.page, 'Message Bo Chen').fill('');
});

test('offline: my messages wait, and are sent once when I am back', async () => {
  await bo.context.setOffline(true);
  await bo.page.getByText('You are offline').waitFor();
  await box(bo.page, 'Message Ada Lindholm').fill('written in a tunnel');
  await bo.page.keyboard.press('Enter');
  await message(bo.page, 'written in a tunnel').getByText('Waiting to send').waitFor();
  await bo.context.setOffline(false);
  await message(ada.page, 'written in a tunnel').waitFor();
  await bo.page.getByText('Waiting to send').waitFor({ state: 'detached' });
  assert.equal(await message(bo.page, 'written in a tunnel').count(), 1);
});

test('killing and restarting the server loses and duplicates nothing', async () => {
  await server.stop('SIGKILL');
  await box(ada.page, 'Message Bo Chen').fill('sent while it was down');
  await ada.page.keyboard.press('Enter');
  await ada.page
    .getByText(/Reconnecting|Cannot reach Northwind’s server/)
    .first()
    .waitFor();
  await message(ada.page, 'sent while it was down').waitFor();
  await server.start();
  await message(bo.page, 'sent while it was down').waitFor({ timeout: 60_000 });
  await ada.page
    .getByText(/Reconnecting…|Cannot reach Northwind’s server/)
    .first()
    .waitFor({ state: 'detached', timeout: 60_000 });
  for (const p of [ada, bo]) {
    await p.page.waitForFunction(() => document.querySelectorAll('article').length === 5);
    await p.page.reload();
    await message(p.page, 'sent while it was down').waitFor();
    assert.equal(await p.page.getByRole('article').count(), 5);
  }
});

test('a rejected message shows the reason and keeps its text; a retry sends it once', async () => {
  let refuse = true;
  await ada.page.route('**/v1/threads/*/messages', (route) =>
    refuse && route.request().method() === 'POST'
      ? route.fulfill({
          status: 422,
          json: { error: { type: 'unprocessable_entity', code: 'x', message: 'Not today.' } },
        })
      : route.continue(),
  );
  await box(ada.page, 'Message Bo Chen').fill('third time lucky');
  await ada.page.keyboard.press('Enter');
  await message(ada.page, 'third time lucky').getByText('Not sent. Not today.').waitFor();
  refuse = false;
  await button(ada.page, 'Try again').click();
  await message(bo.page, 'third time lucky').waitFor();
  await ada.page.getByText('Not sent. Not today.').waitFor({ state: 'detached' });
  assert.equal(await message(ada.page, 'third time lucky').count(), 1);
});

test('the keyboard reaches everything: switcher, next channel, messages, shortcuts', async () => {
  await ada.page.keyboard.press('Control+k');
  await ada.page.keyboard.type('rand');
  await ada.page.keyboard.press('Enter');
  await ada.page.waitForURL('**/c/random');
  await box(ada.page, 'Start a thread in #random').waitFor();
  await ada.page.keyboard.press('Alt+ArrowUp');
  await ada.page.waitForURL((url) => !url.pathname.endsWith('/random'));
  await go(ada, 'general');
  await ada.page
    .locator('main')
    .getByRole('link', { name: /Friday or Monday/ })
    .click();
  await message(ada.page, 'can you book the room?').waitFor();
  await messageList(ada).focus();
  await ada.page.keyboard.press('j');
  await ada.page.waitForFunction(() => document.activeElement?.tagName === 'ARTICLE');
  await ada.page.getByRole('toolbar', { name: 'Message actions' }).waitFor();
  await ada.page.keyboard.press('/');
  await ada.page.waitForFunction(() => document.activeElement?.tagName === 'TEXTAREA');
  await ada.page.keyboard.press('Escape');
  await ada.page.keyboard.press('?');
  await ada.page.getByRole('heading', { name: 'Keyboard shortcuts' }).waitFor();
  await ada.page.keyboard.press('Escape');
});

test('a link to a message opens its thread there', async () => {
  const id = await message(ada.page, 'I vote for Monday').getAttribute('id');
  await bo.page.goto(new URL(ada.page.url()).pathname + `#${id}`);
  await bo.page.waitForFunction((i) => document.getElementById(i)?.classList.contains('flash'), id);
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
