import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  accessible,
  box,
  button,
  fits,
  message,
  person,
  PHONE,
  reply,
  shot,
  startThread,
  WIDE,
} from './lib/browser.mjs';
import { agentPanel, side, theme } from './lib/parts.mjs';
import { startTeam } from './lib/team.mjs';

const { server, model, browser, ada, bo } = await startTeam({
  model: true,
  env: { OPENVIBE_RETRY_DELAYS: '60s' },
  bo: { theme: 'light' },
});
const back = async (p) => {
  await side(p).getByRole('link', { name: 'general' }).click();
  return p.page;
};

test('a channel with threads: read, unread, with a reply in progress', async () => {
  await startThread(
    ada.page,
    'Rate limits for the public API: by key, by workspace, or both?\n\nOne customer has 40 keys.',
  );
  await reply(ada.page, '@coder what does the build say?');
  await message(ada.page, 'The build is green').waitFor();
  await side(ada).getByRole('link', { name: 'general' }).click();
  await startThread(ada.page, 'Notes from the Postgres rehearsal: six minutes read-only, no surprises');
  await side(ada).getByRole('link', { name: 'general' }).click();
  await startThread(
    bo.page,
    'Friday or Monday for the launch?\n\nThe fair is on **Wednesday**; see #random for the room.',
  );
  await reply(bo.page, '@vibe a long answer please, and hold it');
  await message(bo.page, 'last-write-wins for each field').waitFor();
  await ada.page.getByText(/^(Writing|Reading)/).waitFor();
  await accessible(ada.page, 'a channel');
  await shot(ada.page, '02-channel-dark');
  await theme(ada, 'light');
  await shot(ada.page, '03-channel-light');
  await theme(ada, 'dark');
});

test('a thread in which a reply is written', async () => {
  await ada.page
    .locator('main')
    .getByRole('link', { name: /Friday or Monday/ })
    .click();
  await message(ada.page, 'last-write-wins for each field').waitFor();
  await accessible(ada.page, 'a streaming thread');
  await shot(ada.page, '04-thread-streaming-dark');
  model.release();
  await message(ada.page, 'two quiet days before the fair').waitFor();
});

test('completion, and the hint about the responder', async () => {
  await box(bo.page, 'Reply, or @mention an agent').pressSequentially('@');
  await bo.page.getByRole('listbox', { name: 'Suggestions' }).waitFor();
  await accessible(bo.page, 'completion of names');
  await shot(bo.page, '05-completion-light');
  await bo.page.keyboard.press('Escape');
  await box(bo.page, 'Reply, or @mention an agent').fill(':tad');
  await bo.page.getByRole('option', { name: /tada/ }).waitFor();
  await accessible(bo.page, 'completion of emoji');
  await bo.page.keyboard.press('Enter');
  assert.equal(await box(bo.page, 'Reply, or @mention an agent').inputValue(), '🎉 ');
  await box(bo.page, 'Reply, or @mention an agent').fill('see #ran');
  await bo.page.getByRole('option', { name: /random/ }).waitFor();
  await bo.page.keyboard.press('Enter');
  assert.equal(await box(bo.page, 'Reply, or @mention an agent').inputValue(), 'see #random ');
  await box(bo.page, 'Reply, or @mention an agent').fill('');
});

test('every state of a reply: done, failed, retrying, stopped', async () => {
  await reply(ada.page, '@vibe refuse this');
  await ada.page.getByRole('article').filter({ hasText: 'Failed' }).waitFor();
  await reply(ada.page, '@coder flaky');
  await ada.page.getByText(/Retrying in/).waitFor();
  const first = message(ada.page, 'The fair is on');
  await first.hover();
  await first.getByRole('button', { name: 'React', exact: true }).click();
  await box(ada.page, 'Find an emoji').waitFor();
  await ada.page.getByRole('button', { name: 'thumbsup' }).waitFor();
  await accessible(ada.page, 'the emoji picker');
  await ada.page.getByRole('button', { name: 'thumbsup' }).click();
  await accessible(ada.page, 'a thread with failures');
  await ada.page.getByText(/Retrying in/).scrollIntoViewIfNeeded();
  await shot(ada.page, '06-answer-states-dark');
  await ada.page.locator('.composer').getByRole('button', { name: 'Stop' }).click();
  await ada.page.getByText('Stopped before any text was written').waitFor();
});

test('What it saw', async () => {
  await bo.page
    .getByRole('article', { name: /^Vibe/ })
    .getByRole('button', { name: /What it saw/ })
    .first()
    .click();
  const panel = bo.page.getByRole('region', { name: 'What Vibe saw' });
  await panel.getByText('Messages read').waitFor();
  await accessible(bo.page, 'What it saw');
  await shot(bo.page, '07-what-it-saw-light');
  await bo.page.setViewportSize(PHONE);
  await accessible(bo.page, 'What it saw at 390 px');
  await shot(bo.page, '08-what-it-saw-390-light');
  await bo.page.setViewportSize(WIDE);
  await panel.getByRole('button', { name: 'Close' }).click();
  await bo.page.goto(new URL(bo.page.url()).pathname + '?panel=task:task_00000000000000000000000000');
  await bo.page.getByText('This task is no longer available.').waitFor();
  await accessible(bo.page, 'a task that is gone');
});

test('the agent panel', async () => {
  await side(ada).getByRole('button', { name: 'Vibe' }).click();
  const panel = agentPanel(ada);
  await panel.getByText('Who may ask it').waitFor();
  await accessible(ada.page, 'the agent panel');
  await shot(ada.page, '09-agent-dark');
  await panel.getByRole('link', { name: 'Agent settings' }).waitFor();
  await panel.getByRole('button', { name: 'Close' }).click();
});

test('dialogs: new channel, new message, invite, about a channel, keys, delete, switcher', async () => {
  const { page } = ada;
  const dialog = page.getByRole('dialog');
  const check = async (open, what) => {
    await open();
    await dialog.waitFor();
    await accessible(page, what);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  };
  await check(() => button(page, 'New channel').click(), 'new channel');
  await check(() => button(page, 'New message').click(), 'new message');
  await check(() => button(page, 'Invite people').click(), 'invite people');
  await button(page, 'Workspace menu, Northwind').click();
  await accessible(page, 'the workspace menu');
  await shot(page, '10-workspace-menu-dark');
  await button(page, 'Keyboard shortcuts').click();
  await check(() => Promise.resolve(), 'the key list');
  await page.getByRole('article', { name: /^Ada/ }).first().hover();
  const tools = page.getByRole('toolbar', { name: 'Message actions' });
  await tools.getByRole('button', { name: 'More actions' }).click();
  await accessible(page, 'the message menu');
  await check(() => page.getByRole('menuitem', { name: 'Delete' }).click(), 'deleting');
  await side(ada).getByRole('link', { name: 'general' }).click();
  await check(() => button(page, 'About #general').click(), 'about a channel');
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: /^Jump to/ }).fill('o');
  await accessible(page, 'the quick switcher');
  await shot(page, '11-switcher-dark');
  await page.getByRole('combobox', { name: /^Jump to/ }).fill('zzzz');
  await page.getByText('No results').waitFor();
  await accessible(page, 'the quick switcher without a hit');
  await page.keyboard.press('Escape');
});

test('settings, each page', async () => {
  for (const [tab, sign] of [
    ['profile', 'Handle'],
    ['appearance', 'Theme'],
    ['notifications', 'Quiet hours'],
    ['sign-in', 'This device'],
    ['workspace', 'Workspace name'],
    ['members', 'Bo Chen'],
  ]) {
    await ada.page.goto(`/northwind/settings/${tab}`);
    await ada.page.locator('main').getByText(sign).first().waitFor();
    await accessible(ada.page, `settings: ${tab}`);
  }
  await shot(ada.page, '12-members-dark');
  await ada.page.setViewportSize(PHONE);
  await accessible(ada.page, 'members at 390 px');
  await ada.page.setViewportSize(WIDE);
});

test('filters without matches, missing channels and threads', async () => {
  await ada.page.goto('/northwind/c/general');
  await button(ada.page, 'Mark all read')
    .click()
    .catch(() => undefined); // absent if everything is read
  await button(ada.page, 'Unread').click();
  await ada.page.getByText('No matching threads').waitFor();
  await accessible(ada.page, 'no match');
  await button(ada.page, 'Show all threads').click();
  await ada.page.goto('/northwind/c/nowhere');
  await ada.page.getByText('Channel not found').waitFor();
  await accessible(ada.page, 'a channel that is not here');
  await ada.page.goto('/northwind/c/general/t/thread_00000000000000000000000000');
  await ada.page.getByText('Thread not found').waitFor();
  await accessible(ada.page, 'a thread that is not here');
});

test('a page that failed to load can be retried', async () => {
  let broken = true;
  await ada.page.route('**/v1/channels/*/threads**', (r) =>
    broken
      ? r.fulfill({
          status: 503,
          json: { error: { type: 'unavailable', code: 'x', message: 'The database is away.' } },
        })
      : r.continue(),
  );
  await ada.page.goto('/northwind/c/general');
  await ada.page.getByText('Couldn’t load threads').waitFor();
  await accessible(ada.page, 'a channel that failed to load');
  broken = false;
  await button(ada.page, 'Try again').click();
  await ada.page
    .locator('main')
    .getByRole('link', { name: /Friday or Monday/ })
    .waitFor();
  await ada.page.unroute('**/v1/channels/*/threads**');
});

test('loading pages show a skeleton', async () => {
  let go;
  const gate = new Promise((r) => (go = r));
  await ada.page.route('**/v1/threads/*/messages**', async (r) => {
    await gate;
    await r.continue();
  });
  await ada.page
    .locator('main')
    .getByRole('link', { name: /Friday or Monday/ })
    .click();
  await ada.page.getByRole('status', { name: 'Loading messages' }).locator('.skel').first().waitFor();
  await accessible(ada.page, 'a thread that loads');
  go();
  await message(ada.page, 'The fair is on').waitFor();
  await ada.page.unroute('**/v1/threads/*/messages**');
});

test('a direct channel, empty and in use', async () => {
  await button(ada.page, 'New message').click();
  await ada.page.getByRole('dialog').getByRole('button', { name: /Coder/ }).click();
  await ada.page.getByText('replies to every message here').first().waitFor();
  await accessible(ada.page, 'an empty direct channel');
  await box(ada.page, 'Message Coder').fill('Is the build green?');
  await ada.page.keyboard.press('Enter');
  await message(ada.page, 'Monday: two quiet days').waitFor();
  await accessible(ada.page, 'a direct channel');
  await shot(ada.page, '13-direct-agent-dark');
});

test('offline', async () => {
  await ada.context.setOffline(true);
  await ada.page.getByText('You are offline').waitFor();
  await box(ada.page, 'Message Coder').fill('Written in a tunnel');
  await ada.page.keyboard.press('Enter');
  await ada.page.getByText('Waiting to send').waitFor();
  await accessible(ada.page, 'offline');
  await shot(ada.page, '14-offline-dark');
  await ada.context.setOffline(false);
  await ada.page.getByText('Waiting to send').waitFor({ state: 'detached' });
});

test('at 390 px: channel, drawer, thread, long press, no horizontal scrolling', async () => {
  const phone = await person(browser, server.base, { theme: 'dark', viewport: PHONE, touch: true });
  const { page } = phone;
  await page.goto('/login');
  await box(page, 'Email').fill('bo@example.com');
  await page.getByLabel('Password', { exact: true }).fill('correct horse battery');
  await button(page, 'Sign in').click();
  await page
    .locator('main')
    .getByRole('link', { name: /Friday or Monday/ })
    .waitFor();
  await accessible(page, 'a channel at 390 px');
  await shot(page, '15-channel-390-dark');
  await button(page, 'Open the sidebar').click();
  await side(phone).getByRole('link', { name: 'random' }).waitFor();
  await accessible(page, 'the drawer');
  await shot(page, '16-drawer-390-dark');
  await page.keyboard.press('Escape');
  await page
    .locator('main')
    .getByRole('link', { name: /Friday or Monday/ })
    .click();
  await message(page, 'The fair is on').waitFor();
  // Rows lie on one another until the list has measured them.
  await page.waitForFunction(() => {
    const rows = [...document.querySelectorAll('main article')].map((row) => row.getBoundingClientRect());
    return rows.length > 1 && rows.every((row, n) => n === 0 || row.top >= rows[n - 1].bottom - 1);
  });
  await accessible(page, 'a thread at 390 px');
  await page.getByRole('region', { name: 'Messages', exact: true }).hover();
  await page.mouse.wheel(0, -5000);
  await message(page, 'The fair is on').getByText('Wednesday').waitFor();
  await theme(phone, 'light');
  await shot(page, '17-thread-390-light');
  await theme(phone, 'dark');
  const conversation = await message(page, 'The fair is on').getByText('Wednesday').boundingBox();
  // The list ignores the pointer while it scrolls.
  await page.waitForFunction(
    ({ x, y }) => document.elementFromPoint(x + 5, y + 5)?.tagName === 'STRONG',
    conversation,
  );
  const cdp = await phone.context.newCDPSession(page);
  await cdp.send('Input.dispatchTouchEvent', {
    type: 'touchStart',
    touchPoints: [{ x: conversation.x + 5, y: conversation.y + 5 }],
  });
  await page.getByRole('dialog').getByRole('button', { name: 'Copy text' }).waitFor();
  await cdp.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] });
  await accessible(page, 'the sheet of a message');
  await page.getByRole('dialog').getByRole('button', { name: 'React with 🎉' }).click();
  await message(page, 'The fair is on').getByRole('button', { name: '🎉 1' }).waitFor();
  for (const width of [320, 390, 768, 1024]) {
    await page.setViewportSize({ width, height: 800 });
    await fits(page, `a thread at ${width} px`);
  }
  assert.deepEqual(phone.errors, []);
  await phone.close();
});

test('a viewer reads everything and sees immediately why there is no composer', async () => {
  await bo.page.goto('/northwind/c/general');
  await box(bo.page, 'Start a thread in #general').waitFor();
  await ada.page.goto('/northwind/settings/members');
  await ada.page.getByLabel('Role of Bo Chen').selectOption('viewer');
  await bo.page.getByText('You are a viewer here').waitFor();
  await accessible(bo.page, 'a channel for a viewer');
  assert.equal(await bo.page.getByRole('button', { name: 'New channel' }).count(), 0);
  await startThread(await back(ada), 'Viewers see this at once');
  await bo.page.locator('main').getByRole('link', { name: 'Viewers see this at once' }).waitFor();
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
