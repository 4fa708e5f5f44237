import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { accessible, box, button, fits, message, person, PHONE, reply, startThread } from './lib/browser.mjs';
import { answers, composer, option, pictures, side, threadId } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { server, model, browser, ada, bo } = await startTeam({
  model: true,
  env: { OPENVIBE_RETRY_DELAYS: '2s' },
});
/** Agents by name. */
const agents = {};
const start = (p, channel = 'general') => box(p.page, `Start a thread in #${channel}`);
const here = (p, who) => button(p.page, `Replies here: ${who}`);
const item = (p, name, role = 'menuitemradio') => p.page.getByRole(role, { name, exact: true });
const said = (p) => p.page.getByRole('article').count();
const call = (...request) => api(ada, ...request);
const press = async (p, ...keys) => {
  for (const key of keys) await p.page.keyboard.press(key);
};
/** Checks that the open popover is inside the window. */
const inside = async (p, what) => {
  const { x, y, width, height } = await what.boundingBox();
  const { width: w, height: h } = p.page.viewportSize();
  assert.ok(x >= 0 && y >= 0 && x + width <= w && y + height <= h, `${x},${y} ${width}×${height}`);
};
const picker = (p) => p.page.getByRole('menu', { name: 'Agent that replies here' });

before(async () => {
  for (const a of (await call('GET', 'agents')).data) agents[a.name] = a;
  await startThread(ada.page, 'Friday or Monday for the launch?');
  await bo.page
    .locator('main')
    .getByRole('link', { name: /Friday or Monday/ })
    .click();
  await composer(bo).waitFor();
});

test('the header shows the responder; an agent chosen there replies to every message', async () => {
  await button(ada.page, 'Agents reply when mentioned').click();
  await item(ada, 'No agent (agents reply when mentioned)').waitFor();
  await inside(ada, picker(ada));
  await accessible(ada.page, 'the picker');
  await pictures(ada, '60-handoff-picker');
  await ada.page.getByRole('menuitemradio', { name: /^Vibe/ }).click();
  for (const p of [ada, bo]) await here(p, 'Vibe').waitFor();
  assert.equal(
    await ada.page.evaluate(() => document.activeElement.getAttribute('aria-label')),
    'Replies here: Vibe',
    'the focus is back on what opened it',
  );
  await composer(ada).fill('What speaks for Monday?');
  await ada.page.getByText('Vibe will reply here').waitFor();
  await press(ada, 'Enter');
  await answers(bo, 'Vibe').getByText('two quiet days before the fair').waitFor();
});

test('a handoff in the middle: everyone gets a notice, the history stays, and the new agent replies next', async () => {
  await here(bo, 'Vibe').click();
  await bo.page.getByRole('menuitemradio', { name: /^Coder/ }).click();
  for (const p of [ada, bo]) {
    await p.page.getByText('Bo Chen handed this thread over from Vibe to Coder.').waitFor();
    await here(p, 'Coder').waitFor();
    await answers(p, 'Vibe').getByText('two quiet days before the fair').waitFor();
  }
  await composer(ada).fill('And who books the room?');
  await ada.page.getByText('Coder will reply here').waitFor();
  await press(ada, 'Enter');
  await answers(bo, 'Coder').waitFor();
  const asked = await model.until((b) => /who books the room/.test(String(b.messages.at(-1).content)));
  assert.match(JSON.stringify(asked.messages), /two quiet days/, 'it reads what was said before');
  await answers(ada, 'Coder').getByText('two quiet days').waitFor();
  await pictures(ada, '61-handoff-thread');
  await accessible(ada.page, 'a thread that was handed over');
});

test('auto-reply can be turned off: the agent stays bound and replies only to mentions', async () => {
  await here(ada, 'Coder').click();
  await item(ada, 'Coder replies to every message', 'menuitemcheckbox').click();
  for (const p of [ada, bo]) await here(p, 'Coder, only when mentioned').waitFor();
  await composer(ada).fill('Only between us.');
  assert.equal(await ada.page.getByText('will reply here').count(), 0);
  await composer(ada).fill('');
  await here(ada, 'Coder, only when mentioned').click();
  await item(ada, 'Coder replies to every message', 'menuitemcheckbox').click();
  await here(bo, 'Coder').waitFor();
});

test('a slash lists the commands; /agent by keyboard hands the thread over and is not a message', async () => {
  const before = await said(ada);
  await composer(ada).focus();
  await ada.page.keyboard.type('/');
  await option(ada, '/agent').waitFor();
  await option(ada, '/new').waitFor();
  await pictures(ada, '62-handoff-commands');
  await accessible(ada.page, 'the commands');
  await ada.page.keyboard.type('ag');
  await press(ada, 'Enter');
  assert.equal(await composer(ada).inputValue(), '/agent ');
  await option(ada, 'Coder').waitFor();
  assert.match(await option(ada, 'Coder').innerText(), /Current/);
  await pictures(ada, '63-handoff-agents');
  await accessible(ada.page, 'the agents of /agent');
  await ada.page.keyboard.type('vi');
  await press(ada, 'Enter');
  for (const p of [ada, bo]) await here(p, 'Vibe').waitFor();
  await ada.page.getByText('Ada Lindholm handed this thread over from Coder to Vibe.').waitFor();
  assert.equal(await composer(ada).inputValue(), '');
  assert.equal(await said(ada), before + 1, 'the notice and nothing else');
  assert.equal(
    await ada.page.evaluate(() => document.activeElement.getAttribute('aria-label')),
    'Reply, or @mention an agent',
  );
});

test('/agent none by keyboard; Esc keeps the text; an unknown name is not sent', async () => {
  const before = await said(ada);
  await ada.page.keyboard.type('/agent none');
  await press(ada, 'Enter');
  for (const p of [ada, bo]) await button(p.page, 'Agents reply when mentioned').waitFor();
  await ada.page.keyboard.type('/agent');
  await option(ada, 'Vibe').waitFor();
  await press(ada, 'Escape');
  await option(ada, 'Vibe').waitFor({ state: 'detached' });
  assert.equal(await composer(ada).inputValue(), '/agent');
  await press(ada, 'Enter');
  await option(ada, 'Vibe').waitFor();
  await ada.page.keyboard.type(' please look at this');
  await press(ada, 'Enter');
  await ada.page.getByText('no agent is named “please look at this”').first().waitFor();
  assert.equal(await composer(ada).inputValue(), '/agent please look at this');
  assert.equal(await said(ada), before);
  await composer(ada).fill('');
});

test('other slashes are text, and a doubled slash is a slash', async () => {
  await reply(ada.page, '/shrug, as they say');
  await message(bo.page, '/shrug, as they say').waitFor();
  await composer(ada).fill('//agent is how one hands over');
  await ada.page.getByText('Sends “/agent”').waitFor();
  await press(ada, 'Enter');
  const shown = message(bo.page, 'is how one hands over');
  await shown.waitFor();
  assert.equal((await shown.locator('.prose').innerText()).trim(), '/agent is how one hands over');
});

test('without a connection, a handoff shows a notice and keeps the text', async () => {
  await ada.context.setOffline(true);
  await ada.page.getByText('You are offline').first().waitFor();
  await composer(ada).fill('/agent coder');
  await press(ada, 'Enter');
  await ada.page.getByText('You can change the agent when').first().waitFor();
  assert.equal(await composer(ada).inputValue(), '/agent coder');
  await ada.context.setOffline(false);
  await ada.page.getByText('Your messages are saved').waitFor({ state: 'detached' });
  await composer(ada).focus();
  await press(ada, 'Enter');
  await here(bo, 'Coder').waitFor();
});

test('“Version N is available” switches to it in one click, for everyone', async () => {
  const { version } = await call('GET', `agents/${agents.coder.id}`);
  await call(
    'PATCH',
    `agents/${agents.coder.id}`,
    { instructions: 'You are Coder. Rhyme.' },
    { 'If-Match': `"${version}"` },
  );
  const chip = (p) => button(p.page, `Version ${version + 1} is available`);
  await chip(bo).waitFor();
  await composer(ada).fill('Still the old one?');
  await ada.page.getByText(`Coder (version ${version}) will reply here`).waitFor();
  await pictures(ada, '64-handoff-version');
  await accessible(ada.page, 'a newer version');
  await composer(ada).fill('');
  await chip(ada).click();
  for (const p of [ada, bo]) await chip(p).waitFor({ state: 'detached' });
  await reply(ada.page, 'Say it in verse');
  const asked = await model.until((b) => /in verse/.test(String(b.messages.at(-1).content)));
  assert.match(String(asked.messages[0].content), /Rhyme/);
  assert.equal(await ada.page.getByText('from Coder to Coder').count(), 0, 'no notice');
});

test('/new with text starts a thread with the same agent and opens it', async () => {
  const from = threadId(ada);
  await answers(ada, 'Coder').last().getByText('two quiet days').waitFor();
  await composer(ada).fill('/new The room for the fair, please');
  await ada.page.getByText('Starts a thread with Coder').waitFor();
  await press(ada, 'Enter');
  await ada.page.getByRole('heading', { name: 'The room for the fair, please' }).waitFor();
  assert.notEqual(threadId(ada), from);
  await here(ada, 'Coder').waitFor();
  await answers(ada, 'Coder').getByText('two quiet days').waitFor();
  assert.equal(await bo.page.getByText('/new').count(), 0);
});

test('/new alone focuses the channel’s composer, with that agent chosen', async () => {
  await composer(ada).focus();
  await ada.page.keyboard.type('/new');
  await press(ada, 'Enter');
  await start(ada).waitFor();
  await ada.page.getByText('Coder will reply', { exact: true }).waitFor();
  assert.equal(await ada.page.getByText('Draft', { exact: true }).count(), 0, 'the command is gone');
  await ada.page.waitForFunction(
    () => document.activeElement?.getAttribute('aria-label') === 'Start a thread in #general',
  );
  await pictures(ada, '65-handoff-channel');
  await accessible(ada.page, 'a channel whose next thread has an agent');
  await ada.page.keyboard.type('Who brings the chairs?');
  await press(ada, 'Enter');
  await composer(ada).waitFor();
  await here(ada, 'Coder').waitFor();
  await answers(ada, 'Coder').getByText('two quiet days').waitFor();
});

test('/agent in a channel’s composer applies to the next thread, and can be undone', async () => {
  await side(ada).getByRole('link', { name: 'general' }).click();
  await start(ada).focus();
  assert.equal(await ada.page.getByText('will reply').count(), 0, 'once only');
  await ada.page.keyboard.type('/agent vi');
  await press(ada, 'Tab');
  await ada.page.getByText('Vibe will reply', { exact: true }).waitFor();
  assert.equal(await start(ada).inputValue(), '');
  await button(ada.page, 'Don’t use Vibe').click();
  await ada.page.getByText('Vibe will reply', { exact: true }).waitFor({ state: 'detached' });
  await start(ada).focus();
  await ada.page.keyboard.type('/agent vibe');
  await press(ada, 'Enter');
  await ada.page.keyboard.type('Do we need a banner?');
  await press(ada, 'Enter');
  await composer(ada).waitFor();
  await here(ada, 'Vibe').waitFor();
  await answers(ada, 'Vibe').getByText('two quiet days').waitFor();
  await side(ada).getByRole('link', { name: 'general' }).click();
  const row = ada.page.getByRole('listitem').filter({ hasText: 'Do we need a banner?' });
  await row.getByText('Vibe replies here').waitFor({ state: 'attached' });
  await pictures(ada, '66-handoff-rows');
  await accessible(ada.page, 'rows with their agents');
});

test('in a dive, the agent is changed by picker and by /agent, and /new keeps it', async () => {
  await ada.page
    .locator('main')
    .getByRole('link', { name: /Do we need a banner/ })
    .click();
  const row = message(ada.page, 'Do we need a banner?').first();
  await row.hover();
  await row.getByRole('button', { name: 'Deep dive from here', exact: true }).click();
  await box(ada.page, 'Explore with @vibe').waitFor();
  await ada.page.waitForURL(/panel=dive:fork_/);
  await button(ada.page, 'Agent: Vibe').click();
  await ada.page.getByRole('menuitemradio', { name: /^Coder/ }).click();
  await box(ada.page, 'Explore with @coder').fill('/agent vibe');
  await press(ada, 'Enter');
  const explore = box(ada.page, 'Explore with @vibe');
  await explore.waitFor();
  await ada.page.getByText('handed this deep dive over from Coder to Vibe').waitFor();
  await pictures(ada, '67-handoff-dive');
  await accessible(ada.page, 'a dive that was handed over');
  await explore.fill('/new What goes on the banner?');
  await press(ada, 'Enter');
  await ada.page.getByRole('heading', { name: 'What goes on the banner?' }).waitFor();
  await here(ada, 'Vibe').waitFor();
  await answers(ada, 'Vibe').getByText('two quiet days').waitFor();
});

test('a direct channel’s header shows the responder; /new starts a separate conversation', async () => {
  await side(ada).getByRole('button', { name: 'Coder' }).click();
  await button(ada.page, 'Message Coder').click();
  const write = box(ada.page, 'Message Coder');
  await write.fill('Is the fair on Wednesday?');
  await press(ada, 'Enter');
  await answers(ada, 'Coder').getByText('two quiet days').waitFor();
  await here(ada, 'Coder').waitFor();
  await pictures(ada, '68-handoff-direct');
  await accessible(ada.page, 'a direct channel with an agent');
  await write.fill('/new');
  await press(ada, 'Enter');
  await ada.page.getByText('Coder will reply in a new thread').waitFor();
  await write.fill('Another matter: the chairs');
  await press(ada, 'Enter');
  await message(ada.page, 'Is the fair on Wednesday?').waitFor({ state: 'detached' });
  await answers(ada, 'Coder').getByText('two quiet days').waitFor();
  await button(ada.page, 'Conversations').click();
  const menu = ada.page.getByRole('dialog', { name: 'Conversations' });
  await menu.getByRole('link', { name: /^Is the fair on Wednesday\?/ }).click();
  await message(ada.page, 'Is the fair on Wednesday?').waitFor();
});

test('a viewer sees the responder and cannot change it', async () => {
  const { data } = await call('GET', 'members');
  const id = data.find((m) => m.handle.startsWith('bo')).user_id;
  await call('PATCH', `members/${id}`, { role: 'viewer' });
  await bo.page.getByText('You are a viewer here').waitFor();
  await bo.page.getByText('Replies here:').waitFor({ state: 'attached' });
  assert.equal(await here(bo, 'Coder').count(), 0);
  await accessible(bo.page, 'a thread that one may only read');
  await call('PATCH', `members/${id}`, { role: 'member' });
  await here(bo, 'Coder').waitFor();
  const thread = threadId(bo);
  await call('PATCH', `threads/${thread}`, { status: 'archived' });
  await bo.page.getByText('This thread is archived').waitFor();
  await here(bo, 'Coder').waitFor({ state: 'detached' });
  await bo.page.getByText('Replies here:').waitFor({ state: 'attached' });
  await call('PATCH', `threads/${thread}`, { status: 'open' });
  await here(bo, 'Coder').waitFor();
});

test('losing access to the bound agent breaks nothing: others can be chosen, and it can come back', async () => {
  const { data } = await call('GET', 'members');
  const id = data.find((m) => m.handle.startsWith('bo')).user_id;
  const permit = async (access_control) => {
    const { version } = await call('GET', `agents/${agents.coder.id}`);
    await call('PATCH', `agents/${agents.coder.id}`, { access_control }, { 'If-Match': `"${version}"` });
  };
  const barred = 'A restricted agent, not available to you';
  await permit({ allowed_subjects: [], denied_subjects: [id] });
  await here(bo, barred).waitFor();
  await here(ada, 'Coder').first().waitFor();
  await bo.page.reload();
  await here(bo, barred).waitFor();
  await composer(bo).fill('Who is there?');
  assert.equal(await bo.page.getByText('will reply here').count(), 0, 'nothing is promised');
  await composer(bo).fill('');
  await accessible(bo.page, 'a thread whose agent one may not see');
  await composer(bo).fill('@co');
  assert.equal(await option(bo, 'Coder').count(), 0);
  await composer(bo).fill('');
  await here(bo, barred).click();
  await bo.page.getByRole('menuitemradio', { name: /^Vibe/ }).waitFor();
  assert.equal(await bo.page.getByRole('menuitem', { name: /^About/ }).count(), 0);
  await press(bo, 'Escape');
  await side(bo).getByRole('link', { name: 'general' }).click();
  await bo.page.getByText(`Replies here: ${barred}`).first().waitFor({ state: 'attached' });
  await bo.page
    .locator('main')
    .getByRole('link', { name: /Friday or Monday/ })
    .click();
  await permit({ allowed_subjects: [], denied_subjects: [] });
  await here(bo, 'Coder').waitFor();
});

test('an agent that becomes unavailable: the fallback is shown immediately, then in a notice with the reply', async () => {
  await composer(bo).fill('@co');
  await option(bo, 'Coder').waitFor();
  const { version } = await call('GET', `agents/${agents.coder.id}`);
  await call('DELETE', `agents/${agents.coder.id}`, undefined, { 'If-Match': `"${version}"` });
  await bo.page.getByText('Coder is no longer available; Vibe replies from the next message on.').waitFor();
  await option(bo, 'Coder').waitFor({ state: 'detached' });
  await here(bo, 'Coder, no longer available').waitFor();
  await pictures(bo, '69-handoff-gone');
  await accessible(bo.page, 'a thread whose agent is gone');
  await composer(bo).fill('Who answers now?');
  await bo.page.getByText('Vibe will reply here').waitFor();
  await press(bo, 'Enter');
  await bo.page.getByText('Coder is no longer available, so Vibe replies here from now on.').waitFor();
  await answers(bo, 'Vibe').last().getByText('two quiet days').waitFor();
  await here(bo, 'Vibe').waitFor();
  await composer(bo).fill('/agent co');
  assert.equal(await option(bo, 'Coder').count(), 0);
  await composer(bo).fill('');
});

test('with many agents, the picker has a search; it fits on a phone', async () => {
  for (let i = 1; i <= 9; i++) {
    await call('POST', 'agents', { name: `helper-${i}`, display_name: `Helper ${i}`, instructions: 'Help.' });
  }
  const path = new URL(bo.page.url()).pathname;
  const phone = await person(browser, server.base, { viewport: PHONE, touch: true });
  await phone.context.addCookies(await bo.context.cookies());
  await phone.page.goto(path);
  await here(phone, 'Vibe').click();
  await box(phone.page, 'Find an agent').fill('helper 7');
  await fits(phone.page, 'the picker on a phone');
  await inside(phone, picker(phone));
  await pictures(phone, '70-handoff-phone-picker');
  await accessible(phone.page, 'the picker with a search');
  await press(phone, 'Enter');
  await phone.page.getByText('from Vibe to Helper 7').waitFor();
  await here(bo, 'Helper 7').waitFor();
  const helper = (await call('GET', 'agents?limit=100')).data.find((a) => a.name === 'helper-7');
  await call('PATCH', `agents/${helper.id}`, { instructions: 'Help much.' }, { 'If-Match': '"1"' });
  await phone.page.getByRole('button', { name: /^Version 2/ }).waitFor();
  await composer(phone).fill('/agent');
  await option(phone, 'Helper 7').waitFor();
  await fits(phone.page, 'the agents on a phone');
  await pictures(phone, '71-handoff-phone-agents');
  await accessible(phone.page, 'a thread on a phone');
  await phone.page.getByRole('button', { name: /^Version 2/ }).click();
  await phone.page.getByRole('button', { name: /^Version 2/ }).waitFor({ state: 'detached' });
  await option(phone, 'No agent').waitFor({ state: 'detached' });
  await phone.page.getByRole('link', { name: 'Back to #general' }).click();
  const row = phone.page.getByRole('listitem').filter({ hasText: 'Friday or Monday' });
  await row.getByText('Helper 7 replies here').waitFor({ state: 'attached' });
  for (const part of await row.locator('.tb > *').all()) await inside(phone, part);
  await pictures(phone, '72-handoff-phone-rows');
  assert.deepEqual(phone.errors, []);
  await phone.close();
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
