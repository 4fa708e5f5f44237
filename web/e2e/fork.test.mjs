import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import {
  accessible,
  box,
  button,
  fits,
  inviteLink,
  joinBy,
  message,
  person,
  PHONE,
  reply,
  shot,
  startThread,
} from './lib/browser.mjs';
import { forkPanel, messageList, side, theme } from './lib/parts.mjs';
import { startTeam } from './lib/team.mjs';

const { server, model, browser, ada, bo } = await startTeam({
  model: true,
  env: { OPENVIBE_RETRY_DELAYS: '2s' },
});
/** Address of the thread. */
let place;
const QUESTION = 'Friday or Monday for the launch?';
const thread = (p) => p.page.getByRole('region', { name: 'Thread', exact: true });
const explore = (p) => box(p.page, 'Explore with @vibe');
const inFork = (p, text) => forkPanel(p).getByRole('article').filter({ hasText: text });
const say = async (p, text) => {
  await explore(p).fill(text);
  await p.page.keyboard.press('Enter');
};
/** Forks a message with the button in its toolbar, as with a mouse. */
async function fork(p, text) {
  const row = thread(p).getByRole('article').filter({ hasText: text }).first();
  await row.hover();
  await row.getByRole('button', { name: 'Deep dive from here', exact: true }).click();
  await explore(p).waitFor();
}
const rename = async (p, name) => {
  await button(forkPanel(p), 'Rename').click();
  await box(p.page, 'Name of the dive').fill(name);
  await p.page.keyboard.press('Enter');
  await forkPanel(p).getByRole('heading', { name }).waitFor();
};
const id = (p) => /panel=dive:(fork_\w+)/.exec(p.page.url())?.[1];
const opened = (p) => p.page.waitForURL(/panel=dive:fork_/);
const close = async (p) => {
  await forkPanel(p).getByRole('button', { name: 'Close the dive' }).click();
  await forkPanel(p).waitFor({ state: 'detached' });
};
/** Headers and IDs for API requests of this person. */
const caller = async (p) => {
  const { workspace, ...where } = await p.page.evaluate(async () => ({
    workspace: (await (await fetch('/v1/auth/me')).json()).workspaces[0].id,
    at: /\/t\/(thread_\w+)/.exec(location.pathname)[1],
    first: document.querySelector('main article').id.slice(2),
  }));
  return { headers: { 'X-Workspace-Id': workspace, origin: server.base }, ...where };
};
/** Starts a new thread, so that the forks of other tests do not count. */
async function startElsewhere(p, text) {
  await side(p).getByRole('link', { name: 'random' }).click();
  await startThread(p.page, text, 'random');
}
const focused = (p) => p.page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? '');

before(async () => {
  await startThread(ada.page, `${QUESTION}\n\nThe fair is on **Wednesday**, in the old hall.`);
  await reply(ada.page, 'Nobody wants to deploy on a Friday.');
  await message(ada.page, 'Nobody wants to deploy').waitFor();
  await bo.page.locator('main').getByRole('link', { name: QUESTION }).click();
  await message(bo.page, 'Nobody wants to deploy').waitFor();
  place = new URL(bo.page.url()).pathname;
});

test('a dive opens immediately beside the thread with the composer focused; the thread gets a chip and no message', async () => {
  await fork(ada, QUESTION);
  assert.equal(await focused(ada), 'Explore with @vibe');
  await opened(ada);
  assert.equal(await focused(ada), 'Explore with @vibe', 'also after the server made it');
  await forkPanel(ada).getByText('Think out loud').waitFor();
  await forkPanel(ada).getByText('Started from this message').waitFor();
  assert.ok(await button(ada.page, 'Resolve dive').isDisabled(), 'nothing was said yet');
  await button(bo.page, '1 open dive').waitFor();
  await accessible(ada.page, 'a new dive');
  await shot(ada.page, '30-dive-new-dark');
  await theme(ada, 'light');
  await shot(ada.page, '31-dive-new-light');
  await theme(ada, 'dark');
  assert.equal(await thread(bo).getByRole('article').count(), 2);
});

test('the context is chosen before the first message; the agent can change at any time', async () => {
  await button(ada.page, 'Agents here read this message and this dive').click();
  await ada.page.getByRole('menuitemradio', { name: 'Include the thread so far' }).click();
  await button(ada.page, 'Agents here read the thread up to here and this dive').waitFor();
  await forkPanel(ada).getByText('Vibe knows only the thread up to this message').waitFor();
  await button(ada.page, 'Agents here read the thread up to here and this dive').click();
  await ada.page.getByRole('menuitemradio', { name: 'Only this message' }).click();
  await button(ada.page, 'Agents here read this message and this dive').waitFor();
  await button(ada.page, 'Agent: Vibe').click();
  await ada.page.getByRole('menuitemradio', { name: 'No agent (agents reply when mentioned)' }).click();
  await box(ada.page, 'Explore together').waitFor();
  await button(ada.page, 'Agent: No agent').click();
  await ada.page.getByRole('menuitemradio', { name: /^Vibe/ }).click();
  await explore(ada).waitFor();
});

test('the title stays that of the message until someone renames it; the agent replies without a mention', async () => {
  assert.equal(await button(forkPanel(ada), 'Rename').count(), 0);
  await explore(ada).fill('What breaks if we wait?\nA long answer, and hold it');
  await forkPanel(ada).getByText('Vibe will reply here').waitFor();
  await ada.page.keyboard.press('Enter');
  await inFork(ada, 'last-write-wins for each field').waitFor();
  await forkPanel(ada).getByRole('heading', { name: QUESTION }).waitFor();
  await rename(ada, 'What breaks if we wait?');
  assert.equal(await button(forkPanel(ada), 'Rename').count(), 0);
  assert.ok(await button(ada.page, 'Resolve dive').isDisabled(), 'an answer is running');
  assert.equal(await thread(ada).locator('[aria-busy=true]').count(), 0);
  assert.equal(await forkPanel(ada).locator('[aria-busy=true]').count(), 1);
  const sent = await model.until((b) => b.stream && /hold it/.test(b.messages.at(-1).content));
  const all = JSON.stringify(sent.messages);
  assert.ok(all.includes('Friday or Monday'), 'it knows the forked message');
  assert.ok(!all.includes('Nobody wants to deploy'), 'and nothing else of the thread');
});

test('another person joins with the chip and sees the reply stream', async () => {
  await button(bo.page, '1 open dive').click();
  await bo.page.getByRole('menuitem', { name: /What breaks if we wait/ }).click();
  await inFork(bo, 'last-write-wins for each field').waitFor();
  assert.equal(await forkPanel(bo).locator('[aria-busy=true]').count(), 1);
  await accessible(bo.page, 'a dive in which an answer is written');
  await shot(bo.page, '32-dive-streaming-dark');
  model.release();
  for (const p of [ada, bo]) await inFork(p, 'two quiet days before the fair').waitFor();
});

test('both people write; the agent replies to each', async () => {
  await say(bo, 'And the room?');
  await inFork(ada, 'And the room?').waitFor();
  for (const p of [ada, bo])
    await p.page.waitForFunction(
      () =>
        [...document.querySelectorAll('aside article')].filter((a) => a.ariaLabel.startsWith('Vibe, '))
          .length === 2,
    );
});

test('typing is shown in the dive and not in the thread', async () => {
  await explore(ada).pressSequentially('Perh');
  await forkPanel(bo).getByText('Ada Lindholm is typing').waitFor();
  assert.equal(await thread(bo).getByText('is typing').count(), 0);
  await explore(ada).fill('');
});

test('the thread is not affected: no message, no count, nothing unread', async () => {
  assert.equal(await thread(bo).getByRole('article').count(), 2);
  await close(bo);
  await side(bo).getByRole('link', { name: 'random' }).click();
  await say(ada, 'Anybody else?');
  await inFork(ada, 'Anybody else?').waitFor();
  const general = side(bo).getByRole('link', { name: /general/ });
  assert.equal((await general.innerText()).trim(), 'general');
  await general.click();
  const row = bo.page.getByRole('listitem').filter({ hasText: QUESTION });
  await row.getByText('1 reply').waitFor();
  await row.getByRole('link', { name: 'Open the dive What breaks if we wait?' }).waitFor();
  await accessible(bo.page, 'a channel with a dive');
  await shot(bo.page, '33-channel-with-dive-dark');
  await row.getByRole('link', { name: 'Open the dive What breaks if we wait?' }).click();
  await inFork(bo, 'Anybody else?').waitFor();
});

test('a thread message is quoted in the dive on request', async () => {
  const row = thread(ada).getByRole('article').filter({ hasText: 'Nobody wants to deploy' });
  await row.hover();
  await row.getByRole('button', { name: 'Quote in dive', exact: true }).click();
  assert.equal(await focused(ada), 'Explore with @vibe');
  assert.match(
    await explore(ada).inputValue(),
    /^> \*\*Ada Lindholm:\*\* Nobody wants to deploy on a Friday\.\n\n$/,
  );
  await ada.page.keyboard.type('So Monday.');
  await ada.page.keyboard.press('Enter');
  await model.until((b) => /So Monday/.test(b.messages.at(-1).content));
  await inFork(ada, 'So Monday.').locator('blockquote').waitFor();
});

test('dive messages offer no deep dive; the origin links back', async () => {
  await inFork(ada, 'So Monday.').hover();
  await inFork(ada, 'So Monday.').getByRole('button', { name: 'Copy link' }).waitFor();
  assert.equal(await forkPanel(ada).getByRole('button', { name: 'Deep dive from here' }).count(), 0);
  await forkPanel(ada).getByRole('region', { name: 'Messages of the dive' }).press('Home');
  await forkPanel(ada).getByTitle('Go to this message').click();
  await ada.page.waitForURL(/panel=dive:fork_\w+#m-msg_/);
});

test('a reload keeps the panel and the draft', async () => {
  await explore(ada).fill('Not yet sent');
  await ada.page.reload();
  await inFork(ada, 'So Monday.').waitFor();
  assert.equal(await explore(ada).inputValue(), 'Not yet sent');
  await explore(ada).fill('');
});

test('a second dive from the same message does not include the first', async () => {
  await fork(bo, QUESTION);
  await opened(bo);
  await forkPanel(bo).getByText('Think out loud').waitFor();
  await button(bo.page, 'Make a plan').click();
  await inFork(bo, 'Make a plan').waitFor();
  await rename(bo, 'Make a plan');
  await inFork(bo, 'Monday: two quiet days').waitFor();
  const sent = await model.until((b) => b.stream && /Make a plan/.test(b.messages.at(-1).content));
  assert.ok(!JSON.stringify(sent.messages).includes('What breaks if we wait'));
  await button(bo.page, '2 open dives').waitFor();
  await message(ada.page, QUESTION)
    .first()
    .getByRole('button', { name: 'Open the dive Make a plan' })
    .waitFor();
  assert.equal(await inFork(ada, 'Make a plan').count(), 0);
});

test('two dives of one message side by side, both live', async () => {
  const first = id(ada);
  await button(ada.page, 'Focus view').click();
  await ada.page.getByRole('heading', { level: 1, name: 'What breaks if we wait?' }).waitFor();
  assert.match(ada.page.url(), new RegExp(`panel=dive:${first}&focus=1`));
  await accessible(ada.page, 'the focus view');
  await shot(ada.page, '34-dive-focus-dark');
  await button(ada.page, 'Compare with another dive').click();
  await ada.page.getByRole('menuitem', { name: /Make a plan/ }).click();
  const beside = ada.page.getByRole('region', { name: 'Second deep dive: Make a plan' });
  await beside.getByRole('article').filter({ hasText: 'Monday: two quiet days' }).waitFor();
  await say(bo, 'Step two?');
  await beside.getByRole('article').filter({ hasText: 'Step two?' }).waitFor();
  assert.equal(await inFork(ada, 'Step two?').count(), 0);
  await accessible(ada.page, 'two dives side by side');
  await shot(ada.page, '35-dives-side-by-side-dark');
  await theme(ada, 'light');
  await shot(ada.page, '36-dives-side-by-side-light');
  await theme(ada, 'dark');
  await button(ada.page, 'Close the second dive').click();
  await beside.waitFor({ state: 'detached' });
  await ada.page.keyboard.press('Escape');
  await thread(ada).waitFor();
  await button(ada.page, 'Focus view').click();
  await button(ada.page, 'Exit focus view').click();
  await thread(ada).waitFor();
  await inFork(ada, 'So Monday.').waitFor();
});

test('keyboard: J and K move in the focused list, Esc closes and restores the focus, D starts a dive', async () => {
  await explore(ada).focus();
  await ada.page.keyboard.press('Escape');
  await ada.page.keyboard.press('Escape');
  await forkPanel(ada).waitFor({ state: 'detached' });
  await messageList(ada).focus();
  await ada.page.keyboard.press('j');
  await ada.page.keyboard.press('j');
  assert.match(await focused(ada), /^Ada Lindholm, /);
  await ada.page.keyboard.press('d');
  await opened(ada);
  assert.equal(await focused(ada), 'Explore with @vibe');
  await ada.page.keyboard.type('Third one');
  await ada.page.keyboard.press('Enter');
  await inFork(ada, 'Third one').waitFor();
  await inFork(ada, 'Monday: two quiet days').waitFor();
  await forkPanel(ada).getByRole('region', { name: 'Messages of the dive' }).focus();
  await ada.page.keyboard.press('j');
  await ada.page.keyboard.press('j');
  assert.ok(await ada.page.evaluate(() => document.activeElement.closest('aside') !== null));
  await ada.page.keyboard.press('k');
  assert.match(await focused(ada), /^Ada Lindholm, /);
  await ada.page.keyboard.press('r');
  assert.equal(await focused(ada), 'Explore with @vibe');
  await ada.page.keyboard.press('Escape');
  await ada.page.keyboard.press('Escape');
  await forkPanel(ada).waitFor({ state: 'detached' });
  assert.match(await focused(ada), /^Ada Lindholm, /, 'back on the message');
  await ada.page.goBack();
  await inFork(ada, 'Third one').waitFor();
});

test('closing What it saw reveals the dive under it', async () => {
  await inFork(ada, 'Monday: two quiet days')
    .getByRole('button', { name: /What it saw/ })
    .click();
  await ada.page.getByRole('region', { name: 'What Vibe saw' }).waitFor();
  await button(ada.page, 'Close').click();
  await inFork(ada, 'Third one').waitFor();
});

test('a dive is renamed, abandoned, and reopened', async () => {
  await button(ada.page, 'Dive menu').click();
  await ada.page.getByRole('menuitem', { name: 'Rename' }).click();
  await box(ada.page, 'Name of the dive').fill('The press');
  await ada.page.keyboard.press('Enter');
  await forkPanel(ada).getByRole('heading', { name: 'The press' }).waitFor();
  await button(ada.page, 'Dive menu').click();
  await accessible(ada.page, 'the menu of a dive');
  await ada.page.getByRole('menuitem', { name: 'Abandon dive' }).click();
  await ada.page.getByRole('dialog', { name: 'Abandon this dive?' }).waitFor();
  await button(ada.page, 'Abandon dive').click();
  await forkPanel(ada).getByText('Abandoned. Nothing was posted.').waitFor();
  assert.equal(await explore(ada).count(), 0);
  await accessible(ada.page, 'an abandoned dive');
  await shot(ada.page, '37-dive-abandoned-dark');
  await button(bo.page, '2 open dives').click();
  await bo.page.getByRole('menuitem', { name: /The press.*Abandoned/ }).waitFor();
  await accessible(bo.page, 'the dives of a thread');
  await shot(bo.page, '38-dives-of-a-thread-dark');
  await bo.page.keyboard.press('Escape');
  await forkPanel(ada).getByRole('button', { name: 'Reopen' }).click();
  await explore(ada).waitFor();
  await button(bo.page, '3 open dives').waitFor();
});

test('the switcher finds a dive', async () => {
  await bo.page.keyboard.press('Control+k');
  await box(bo.page, 'Jump to a channel, dive, person, agent, or thread')
    .or(bo.page.getByRole('combobox', { name: /Jump to a channel, dive/ }))
    .fill('the press');
  await bo.page.getByRole('option', { name: /The press.*Deep dive/ }).click();
  await inFork(bo, 'Third one').waitFor();
});

test('an eighth dive is rejected', async () => {
  const { headers, at, first } = await caller(ada);
  for (let i = 0; i < 4; i++) {
    const made = await ada.page.request.post(`${server.base}/v1/threads/${at}/forks`, {
      headers,
      data: { message_id: first, title: `Side question ${i + 1}` },
    });
    assert.equal(made.status(), 201);
  }
  await button(ada.page, '7 open dives').waitFor();
  await close(ada);
  const row = thread(ada).getByRole('article').filter({ hasText: QUESTION }).first();
  await row.hover();
  await row.getByRole('button', { name: 'Deep dive from here', exact: true }).click();
  await ada.page.getByText('This thread has 7 open dives. Resolve or abandon one first.').last().waitFor();
  assert.ok(!ada.page.url().includes('panel='));
  await accessible(ada.page, 'a message with many dives');
});

test('a slow start: messages wait until the dive exists; a failed start can be retried', async () => {
  await startElsewhere(bo, 'Which hall has the better light?');
  let open;
  const gate = new Promise((r) => (open = r));
  let fail = true;
  const starts = [];
  await bo.page.route('**/v1/threads/*/forks', async (route) => {
    if (route.request().method() !== 'POST') return route.fallback();
    starts.push(route.request().postDataJSON());
    await gate;
    if (fail) return route.fulfill({ status: 500, json: { error: { code: 'internal', message: 'Busy.' } } });
    return route.fallback();
  });
  await fork(bo, 'Which hall');
  assert.equal(await focused(bo), 'Explore with @vibe');
  await bo.page.keyboard.type('The old one?');
  await bo.page.keyboard.press('Enter');
  await inFork(bo, 'The old one?').waitFor();
  await bo.page.keyboard.type('Half a thou');
  open();
  await forkPanel(bo).getByText('Couldn’t start the dive. Busy.').waitFor();
  await inFork(bo, 'The old one?').getByText('Not sent.').waitFor();
  await accessible(bo.page, 'a dive that could not be started');
  await shot(bo.page, '44-dive-not-started-dark');
  fail = false;
  await forkPanel(bo).getByRole('alert').locator('..').getByRole('button', { name: 'Try again' }).click();
  await opened(bo);
  await inFork(bo, 'The old one?').getByRole('button', { name: 'Try again' }).click();
  await inFork(bo, 'Monday: two quiet days').waitFor();
  assert.equal(await explore(bo).inputValue(), 'Half a thou');
  assert.deepEqual(starts[0], starts[1], 'the same start, so that there is never a second dive');
  await bo.page.unroute('**/v1/threads/*/forks');
  await explore(bo).fill('');
  await bo.page.goto(place);
  await message(bo.page, QUESTION).first().waitFor();
});

test('offline: messages wait, and no dive is started', async () => {
  await thread(bo).getByRole('button', { name: 'Open the dive The press' }).click();
  await inFork(bo, 'Third one').waitFor();
  await thread(ada).getByRole('button', { name: 'Open the dive The press' }).click();
  await inFork(ada, 'Third one').waitFor();
  await ada.context.setOffline(true);
  await ada.page.getByText('You are offline').first().waitFor();
  await say(ada, 'Written in a tunnel');
  await inFork(ada, 'Written in a tunnel').getByText('Waiting to send').waitFor();
  const row = thread(ada).getByRole('article').filter({ hasText: 'Nobody wants to deploy' });
  await row.hover();
  await row.getByRole('button', { name: 'Deep dive from here', exact: true }).click();
  await ada.page.getByText('You can start a dive when').last().waitFor();
  await ada.context.setOffline(false);
  await inFork(bo, 'Written in a tunnel').waitFor();
  await inFork(ada, 'Written in a tunnel').getByText('Waiting to send').waitFor({ state: 'detached' });
});

test('a resolved dive is read-only, links to its result, and can be reopened', async () => {
  await thread(bo).getByRole('button', { name: 'Open the dive Make a plan' }).click();
  await inFork(bo, 'Step two?').waitFor();
  await thread(ada).getByRole('button', { name: 'Open the dive Make a plan' }).click();
  await inFork(ada, 'Step two?').waitFor();
  const { headers } = await caller(bo);
  const answer = await bo.page.request.post(`${server.base}/v1/forks/${id(bo)}/publish`, {
    headers,
    data: { resolution: { headline: 'Launch on Monday', conclusion: 'Two quiet days before the fair.' } },
  });
  assert.equal(answer.status(), 200);
  await forkPanel(bo).getByText('Resolved by you, just now').waitFor();
  await forkPanel(ada).getByText('Resolved by Bo Chen, just now').waitFor();
  assert.equal(await explore(ada).count(), 0);
  await button(ada.page, '6 open dives').waitFor();
  await accessible(ada.page, 'a resolved dive');
  await shot(ada.page, '43-dive-resolved-dark');
  await forkPanel(ada).getByRole('link', { name: 'See the result' }).click();
  await forkPanel(ada).waitFor({ state: 'detached' });
  await ada.page.getByRole('article', { name: 'Result: Launch on Monday' }).waitFor();
  await forkPanel(bo).getByRole('button', { name: 'Reopen' }).click();
  await forkPanel(bo).getByText('Nothing new since the result').waitFor();
  await say(bo, 'One more thing.');
  await forkPanel(bo).getByText('New messages since the result').waitFor();
  await accessible(bo.page, 'a reopened dive');
  await ada.page.getByRole('link', { name: 'Back to #general' }).click();
  const row = ada.page.getByRole('listitem').filter({ hasText: QUESTION });
  await row.getByText('Launch on Monday').waitFor();
  await accessible(ada.page, 'a channel with a result');
  await shot(ada.page, '45-channel-with-result-dark');
});

test('on a phone, the dive is a sheet: long press opens it, Back closes it', async () => {
  const phone = await person(browser, server.base, { viewport: PHONE, touch: true });
  await joinBy(phone.page, await inviteLink(ada.page), { name: 'Cy Twombly', email: 'cy@example.com' });
  await phone.page.locator('main').getByRole('link', { name: QUESTION }).click();
  const row = thread(phone).getByRole('article').filter({ hasText: 'Nobody wants to deploy' });
  await row.waitFor();
  await button(phone.page, '7 open dives').waitFor();
  await accessible(phone.page, 'a thread with dives on a phone');
  await shot(phone.page, '39-thread-with-dives-phone');
  const conversation = await row.getByText('Nobody wants to deploy').boundingBox();
  const cdp = await phone.context.newCDPSession(phone.page);
  const touchPoints = [{ x: conversation.x + 5, y: conversation.y + 5 }];
  await cdp.send('Input.dispatchTouchEvent', { type: 'touchStart', touchPoints });
  await phone.page.getByRole('dialog', { name: 'Message' }).waitFor();
  await phone.page.getByRole('button', { name: 'Deep dive from here' }).waitFor();
  await cdp.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] });
  await shot(phone.page, '40-message-sheet-phone');
  await phone.page.keyboard.press('Escape');
  await button(phone.page, '7 open dives').click();
  await phone.page.getByRole('menuitem', { name: /What breaks if we wait/ }).click();
  await inFork(phone, 'So Monday.').waitFor();
  await accessible(phone.page, 'a dive on a phone');
  await fits(phone.page, 'a dive on a phone');
  await shot(phone.page, '41-dive-phone-dark');
  await theme(phone, 'light');
  await shot(phone.page, '42-dive-phone-light');
  await phone.page.setViewportSize({ width: 320, height: 640 });
  await fits(phone.page, 'a dive at 320 px');
  await phone.page.goBack();
  await forkPanel(phone).waitFor({ state: 'detached' });
  assert.deepEqual(phone.errors, []);
  await phone.close();
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
