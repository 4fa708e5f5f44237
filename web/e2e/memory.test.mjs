// Agent memory: pages, dialogs, and the memories that a reply used, updated live in several windows.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { accessible, box, button, message, PHONE, reply, startThread, WIDE } from './lib/browser.mjs';
import { answers, dialog, inspect, main, pictures, threadId, toast } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam({ model: true });
const SETTINGS = '/northwind/settings';
const entry = (p, text, within = p.page) =>
  within.getByRole('article', { name: `Memory: ${text}`, exact: true });
const list = (p, name) => p.page.getByRole('region', { name, exact: true });
const mine = (p) => list(p, 'What agents remember about you');
const undo = (p) => p.page.locator('.toast').getByRole('button', { name: 'Undo' }).click();
const remember = (p, text, fields = {}) => api(p, 'POST', 'memories', { text, kind: 'fact', ...fields });
const texts = async (p, query = '') => (await api(p, 'GET', `memories?${query}`)).data.map((e) => e.text);
const openMenu = async (p, text) => {
  await message(p.page, text).last().hover();
  await message(p.page, text).last().getByRole('button', { name: 'More actions' }).click();
};
const pick = (p, name, role = 'menuitem') => p.page.getByRole(role, { name, exact: true }).click();
const focusIn = (p) => p.page.evaluate(() => document.activeElement.getAttribute('aria-label'));
let thread = '';

before(async () => {
  await startThread(ada.page, 'Where does the harbor ferry start?');
  thread = new URL(ada.page.url()).pathname;
});

test('nothing is remembered at first; an entry is added, found, edited, and forgotten', async () => {
  await ada.page.goto(`${SETTINGS}/memory`);
  await main(ada).getByRole('heading', { name: 'What agents remember about you', exact: true }).waitFor();
  await main(ada).getByText('Nothing is remembered about you.').waitFor();
  await inspect(ada, 'memory-none');
  await button(ada.page, 'Add').click();
  await box(ada.page, 'Text').fill('Prefers short answers with sources');
  await dialog(ada).getByText('More', { exact: true }).click();
  await dialog(ada).getByLabel('Kind').selectOption('Preference');
  await inspect(ada, 'memory-add');
  await button(ada.page, 'Remember').click();
  await toast(ada, 'Remembered');
  const short = entry(ada, 'Prefers short answers with sources');
  await short.getByText('Written by you').waitFor();
  await short.getByText('just now').waitFor();
  await remember(ada, 'Lives by the harbor');
  await entry(ada, 'Lives by the harbor').waitFor(); // added by the event
  await inspect(ada, 'memory-mine');
  await ada.page.getByRole('searchbox', { name: 'Search memories' }).fill('answer');
  await entry(ada, 'Lives by the harbor').waitFor({ state: 'detached' });
  await short.waitFor();
  await ada.page.getByRole('searchbox', { name: 'Search memories' }).fill('zebra');
  await mine(ada).getByText('No results').waitFor();
  await ada.page.getByRole('searchbox', { name: 'Search memories' }).fill('');
  await entry(ada, 'Lives by the harbor').waitFor();

  await short.getByRole('button', { name: 'Edit' }).click();
  assert.equal(await box(ada.page, 'Text').inputValue(), 'Prefers short answers with sources');
  await box(ada.page, 'Text').fill('Prefers long answers');
  await ada.page.keyboard.press('Tab');
  await button(ada.page, 'Save').click();
  await entry(ada, 'Prefers long answers').waitFor();

  await entry(ada, 'Lives by the harbor').getByRole('button', { name: 'Forget' }).click();
  await toast(ada, 'Forgotten');
  await entry(ada, 'Lives by the harbor').waitFor({ state: 'detached' });
  assert.equal(await focusIn(ada), 'Memory: Prefers long answers', 'the focus is on the next entry');
  await undo(ada);
  await entry(ada, 'Lives by the harbor').waitFor();
});

test('an entry can be kept to one’s own chats with agents', async () => {
  const where = dialog(ada).getByLabel('For', { exact: true });
  await button(ada.page, 'Add').click();
  await box(ada.page, 'Text').fill('Takes medicine at noon');
  await dialog(ada).getByText('Agents may repeat this wherever you ask them.').waitFor();
  await where.selectOption('Me, only in my own chats with agents');
  await dialog(ada).getByText('In your direct messages with agents, if nobody else is in them.').waitFor();
  await inspect(ada, 'memory-own-chats');
  await button(ada.page, 'Remember').click();
  await toast(ada, 'Remembered');
  const noon = entry(ada, 'Takes medicine at noon');
  await noon.getByText('only in your own chats with agents').waitFor();
  const visibility = async () =>
    (await api(ada, 'GET', 'memories?user_id=me&q=medicine')).data.map((e) => e.visibility);
  assert.deepEqual(await visibility(), ['direct']);
  await noon.getByRole('button', { name: 'Edit' }).click();
  assert.equal(await where.locator('option:checked').innerText(), 'Me, only in my own chats with agents');
  await where.selectOption('Me');
  await button(ada.page, 'Save').click();
  await noon.getByText('only in your own chats').waitFor({ state: 'detached' });
  assert.deepEqual(await visibility(), ['workspace']);
  await noon.getByRole('button', { name: 'Forget' }).click();
  await noon.waitFor({ state: 'detached' });
});

test('a secret is refused, and the text stays', async () => {
  await button(ada.page, 'Add').click();
  await box(ada.page, 'Text').fill('The password is Hunter22');
  await button(ada.page, 'Remember').click();
  await dialog(ada).getByText('The text looks like a password').waitFor();
  assert.equal(await box(ada.page, 'Text').inputValue(), 'The password is Hunter22');
  await accessible(ada.page, 'a refused memory');
  await button(ada.page, 'Cancel').click();
});

test('two windows: a change appears in the other one, and an older edit is not lost', async () => {
  const other = await ada.context.newPage();
  const second = { ...ada, page: other };
  await other.goto(`${SETTINGS}/memory`);
  await entry(second, 'Prefers long answers').getByRole('button', { name: 'Edit' }).click();
  await box(other, 'Text').fill('Prefers answers of one line');
  await entry(ada, 'Prefers long answers').getByRole('button', { name: 'Edit' }).click();
  await box(ada.page, 'Text').fill('Prefers tables');
  await button(ada.page, 'Save').click();
  await entry(ada, 'Prefers tables').waitFor();
  await button(other, 'Save').click();
  await dialog(second).getByText('Someone changed this memory in the meantime').waitFor();
  await dialog(second).getByText('Prefers tables').waitFor();
  assert.equal(await box(other, 'Text').inputValue(), 'Prefers answers of one line');
  await inspect(second, 'memory-conflict');
  await button(other, 'Save anyway').click();
  await entry(second, 'Prefers answers of one line').waitFor();
  await entry(ada, 'Prefers answers of one line').waitFor();
  await entry(ada, 'Lives by the harbor').getByRole('button', { name: 'Forget' }).click();
  await entry(second, 'Lives by the harbor').waitFor({ state: 'detached' });
  await other.close();
});

test('more entries are loaded by page', async () => {
  for (let n = 1; n <= 24; n++) await remember(ada, `Knows pier number ${n}`);
  await entry(ada, 'Knows pier number 24').waitFor();
  await ada.page.reload();
  await entry(ada, 'Knows pier number 24').waitFor();
  assert.equal(await mine(ada).getByRole('article').count(), 20);
  await button(ada.page, 'Show older').click();
  await entry(ada, 'Knows pier number 1').waitFor();
  assert.equal(await mine(ada).getByRole('article').count(), 25);
  // A new memory does not discard the loaded pages.
  await remember(ada, 'Knows the ferry');
  await entry(ada, 'Knows the ferry').waitFor();
  await entry(ada, 'Knows pier number 1').waitFor();
});

test('the switches are stored, and “Forget all” asks first', async () => {
  const on = ada.page.getByRole('switch', { name: 'Remember things about me' });
  const persona = ada.page.getByRole('switch', { name: 'Remember how I want individual agents to treat me' });
  await persona.uncheck();
  await on.uncheck();
  await persona.and(ada.page.locator(':disabled')).waitFor();
  await button(ada.page, 'Add').waitFor({ state: 'detached' });
  await ada.page.reload();
  await on.waitFor();
  assert.equal(await on.isChecked(), false);
  const stored = await api(ada, 'GET', 'memory-settings');
  assert.deepEqual([stored.enabled, stored.persona], [false, false]);
  await on.check();
  await persona.and(ada.page.locator(':enabled')).check();
  await button(ada.page, 'Forget all').click();
  await dialog(ada).getByText('Forget everything about you?').waitFor();
  await inspect(ada, 'memory-forget-all');
  await button(ada.page, 'Cancel').click();
  assert.equal((await texts(ada, 'user_id=me')).length, 20);
  await button(ada.page, 'Forget all').click();
  await dialog(ada).getByRole('button', { name: 'Forget all' }).click();
  await toast(ada, '26 memories forgotten');
  await main(ada).getByText('Nothing is remembered about you.').waitFor();
  assert.deepEqual(await texts(ada, 'user_id=me'), []);
});

test('“Remember…” keeps a message: only here by default, with Undo', async () => {
  await ada.page.goto(thread);
  await reply(ada.page, 'The harbor ferry starts at Pier 4711');
  await openMenu(ada, 'Pier 4711');
  await pictures(ada, 'memory-menu');
  await pick(ada, 'Remember…');
  assert.equal(await box(ada.page, 'Text').inputValue(), 'The harbor ferry starts at Pier 4711');
  const where = dialog(ada).getByLabel('For', { exact: true });
  assert.equal(await where.locator('option:checked').innerText(), 'This thread');
  await dialog(ada).getByText('Agents can use it in the threads of #general.').waitFor();
  await inspect(ada, 'memory-remember');
  await button(ada.page, 'Remember').click();
  await toast(ada, 'Remembered');
  const [made] = (await api(ada, 'GET', 'memories?scope=conversation')).data;
  assert.deepEqual([made.visibility, made.source_message_ids.length], ['channel', 1]);
  await undo(ada);
  await ada.page.locator('.said').filter({ hasText: 'Forgotten' }).waitFor({ state: 'attached' });
  assert.deepEqual(await texts(ada, 'scope=conversation'), []);
  // The same with the keyboard, and only for the user.
  await openMenu(ada, 'Pier 4711');
  await ada.page.getByRole('menuitem', { name: 'Remember…' }).press('Enter');
  await where.selectOption('Me');
  await box(ada.page, 'Text').press('Control+End');
  await ada.page.keyboard.type(' at nine');
  await button(ada.page, 'Remember').press('Enter');
  await toast(ada, 'Remembered');
  assert.deepEqual(await texts(ada, 'user_id=me'), ['The harbor ferry starts at Pier 4711 at nine']);
  await openMenu(ada, 'Pier 4711');
  await pick(ada, 'Remember…');
  await where.selectOption('Everyone in Northwind');
  await button(ada.page, 'Remember').click();
  await dialog(ada).waitFor({ state: 'detached' });
  const [shared] = (await api(ada, 'GET', 'memories?scope=conversation')).data;
  assert.equal(shared.visibility, 'workspace');
});

test('a reply shows its memories; others see that personal ones are hidden; a wrong one is flagged', async () => {
  await bo.page.goto(thread);
  await reply(ada.page, '@vibe where does the harbor ferry start, at which pier?');
  const chip = (p) => answers(p, 'Vibe').last().getByRole('button', { name: '2 memories' });
  await chip(ada).click();
  const used = (p) => p.page.getByRole('list', { name: 'Memories', exact: true });
  await used(ada).getByText('The harbor ferry starts at Pier 4711 at nine', { exact: true }).waitFor();
  await used(ada).getByText('matching words · from today').first().waitFor();
  await used(ada).getByRole('button', { name: 'Wrong' }).nth(1).waitFor();
  await accessible(ada.page, 'the memories of a reply');
  await pictures(ada, 'memory-chip');
  await ada.page.keyboard.press('Escape');
  await ada.page.setViewportSize(PHONE);
  await chip(ada).click();
  await used(ada).getByRole('button', { name: 'Wrong' }).nth(1).waitFor();
  await ada.page.mouse.move(0, 0);
  await accessible(ada.page, 'the memories of a reply at 390 px');
  await pictures(ada, 'memory-chip-390');
  await ada.page.keyboard.press('Escape');
  await ada.page.setViewportSize(WIDE);
  assert.equal(await focusIn(ada), '2 memories', 'the focus is back on the chip');
  await chip(bo).click();
  await used(bo).getByText('(1 personal memory of Ada Lindholm is hidden)').waitFor();
  assert.equal(await used(bo).getByText('at nine').count(), 0);
  await used(bo).getByRole('button', { name: 'Wrong' }).click();
  await used(bo).getByText('marked as wrong').waitFor();
  await pictures(bo, 'memory-hidden');
  await bo.page.keyboard.press('Escape');
  const [flagged] = (await api(ada, 'GET', 'memories?scope=conversation')).data;
  assert.equal(flagged.flagged, true);
});

test('“What it saw” lists the memories and the parts of its legend', async () => {
  await answers(ada, 'Vibe')
    .last()
    .getByRole('button', { name: /What it saw/ })
    .click();
  const saw = ada.page.getByRole('region', { name: 'What Vibe saw' });
  for (const part of ['Instructions', 'Memory', 'Messages', 'Question', 'Tools', 'Reply reserve'])
    await saw.locator('.leg').getByText(part, { exact: true }).waitFor();
  await saw.getByRole('heading', { name: 'Memories' }).waitFor();
  await saw.getByText('The harbor ferry starts at Pier 4711 at nine', { exact: true }).waitFor();
  await saw.getByText('marked as wrong').waitFor();
  await inspect(ada, 'memory-saw');
  await button(saw, 'Close').click();
});

test('an agent’s entries are shown to everyone, and changed by those who may', async () => {
  await ada.page.goto(`${SETTINGS}/agents`);
  const { data } = await api(ada, 'GET', 'agents');
  const vibe = data.find((a) => a.name === 'vibe').id;
  await ada.page.goto(`${SETTINGS}/agents/${vibe}/memory`);
  await main(ada).getByText('Vibe remembers nothing yet.').waitFor();
  await button(ada.page, 'Add').click();
  await box(ada.page, 'Text').fill('Deploys happen on Mondays');
  await dialog(ada).getByText('More', { exact: true }).click();
  await dialog(ada).getByLabel('Kind').selectOption('Decision');
  await button(ada.page, 'Remember').click();
  await entry(ada, 'Deploys happen on Mondays').getByText('Decision').waitFor();
  await inspect(ada, 'memory-agent');
  await bo.page.goto(`${SETTINGS}/memory?of=agents`);
  await entry(bo, 'Deploys happen on Mondays').getByText('Decision, of Vibe').waitFor();
  assert.equal(await button(bo.page, 'Add').count(), 0);
  await inspect(bo, 'memory-agents');
  const policy = (await api(ada, 'GET', 'workspaces')).data[0].id;
  await api(ada, 'PATCH', `workspaces/${policy}/policy`, { members_write_agents: false });
  await bo.page.goto(`${SETTINGS}/agents/${vibe}/memory`);
  const theirs = entry(bo, 'Deploys happen on Mondays');
  await theirs.getByText('Written by Ada Lindholm').waitFor();
  for (const name of ['Edit', 'Forget']) assert.equal(await button(theirs, name).count(), 0);
  assert.equal(await button(bo.page, 'Add').count(), 0);
  await api(ada, 'PATCH', `workspaces/${policy}/policy`, { members_write_agents: true });
  await bo.page.reload();
  await button(theirs, 'Edit').click();
  await box(bo.page, 'Text').fill('Deploys happen on Tuesdays');
  await button(bo.page, 'Save').click();
  await entry(ada, 'Deploys happen on Tuesdays').waitFor();
  await button(entry(ada, 'Deploys happen on Tuesdays'), 'Forget').click();
  await main(bo).getByText('Vibe remembers nothing yet.').waitFor();
});

test('an admin publishes what its owner allows to share; conversations and the workspace have lists', async () => {
  const threads = (p) => list(p, 'Memories of conversations');
  const shared = (p) => list(p, 'Memories of the workspace');
  const tab = (p, name) =>
    main(p).getByRole('navigation', { name: 'Memories of' }).getByRole('link', { name }).click();
  await ada.page.goto(`${SETTINGS}/memory?of=workspace`);
  await shared(ada).getByText('Nothing is remembered for the workspace.').waitFor();
  await tab(ada, 'Conversations');
  const made = entry(ada, 'The harbor ferry starts at Pier 4711', threads(ada));
  await made.getByText('Marked as wrong').waitFor();
  assert.equal(await button(made, 'Publish').count(), 0);
  await bo.page.goto(`${SETTINGS}/memory?of=conversations`);
  const theirs = entry(bo, 'The harbor ferry starts at Pier 4711', threads(bo));
  await button(theirs, 'It’s right').click();
  await made.getByText('Marked as wrong').waitFor({ state: 'detached' });
  await button(theirs, 'Edit').click();
  await dialog(bo).getByLabel('Admins may publish it for the workspace').check();
  await button(bo.page, 'Save').click();
  assert.equal(await button(theirs, 'Publish').count(), 0);
  await button(made, 'Publish').click();
  await toast(ada, 'Published');
  await inspect(ada, 'memory-conversations');
  for (const p of [ada, bo]) {
    await tab(p, 'Workspace');
    await entry(p, 'The harbor ferry starts at Pier 4711', shared(p)).waitFor();
  }
  await inspect(ada, 'memory-workspace');
  await button(entry(ada, 'The harbor ferry starts at Pier 4711', shared(ada)), 'Forget').click();
  await button(dialog(ada), 'Forget').click();
  await shared(bo).getByText('Nothing is remembered for the workspace.').waitFor();
  await tab(ada, 'Conversations');
  await button(made, 'Source').click();
  await message(ada.page, 'Pier 4711').first().waitFor();
});

test('an edited source makes an entry stale until someone confirms it', async () => {
  await ada.page.goto(thread);
  const { data } = await api(ada, 'GET', `threads/${threadId(ada)}/messages`);
  const source = data.find((m) => m.content.includes('starts at Pier 4711'));
  await api(ada, 'PATCH', `messages/${source.id}`, { content: 'The harbor ferry starts at Pier 12' });
  await ada.page.goto(`${SETTINGS}/memory`);
  const stale = entry(ada, 'The harbor ferry starts at Pier 4711 at nine');
  await stale.getByText('A source was edited: not used').waitFor();
  await inspect(ada, 'memory-stale');
  await button(stale, 'It’s right').click();
  await stale.getByText('A source was edited').waitFor({ state: 'detached' });
});

test('the policy turns memory off for everyone, and only admins change it', async () => {
  await ada.page.goto(`${SETTINGS}/told`);
  const people = (p) => p.page.getByRole('switch', { name: 'Memories about people' });
  await bo.page.goto(`${SETTINGS}/told`);
  await main(bo).getByText('Only admins can change this.').waitFor();
  assert.equal(await people(bo).isDisabled(), true);
  await people(ada).uncheck();
  await ada.page.getByRole('switch', { name: 'How people want individual agents to treat them' }).uncheck();
  await bo.page.goto(`${SETTINGS}/memory`);
  await main(bo)
    .getByText('Northwind has turned memory about people off. An admin can turn it on in')
    .waitFor();
  assert.equal(await bo.page.getByRole('switch', { name: 'Remember things about me' }).count(), 0);
  assert.equal(await button(bo.page, 'Add').count(), 0);
  await inspect(bo, 'memory-off');
  await people(ada).check();
  const agents = ada.page.getByRole('switch', { name: 'Agents remember', exact: true });
  await agents.uncheck();
  await people(ada).and(ada.page.locator(':disabled')).waitFor();
  await bo.page.goto(thread);
  await openMenu(bo, 'Pier 12');
  await bo.page.getByRole('menuitem', { name: 'Copy text' }).waitFor();
  await bo.page.getByRole('menuitem', { name: 'Remember…' }).waitFor({ state: 'detached' });
  await inspect(ada, 'memory-policy');
  await agents.check();
  await people(ada).and(ada.page.locator(':checked')).waitFor();
});

test('quiet conversations and the retention of automatic memories are rules of the workspace', async () => {
  await ada.page.goto(`${SETTINGS}/told`);
  const workspace = (await api(ada, 'GET', 'workspaces')).data[0].id;
  const rules = async () => (await api(ada, 'GET', `workspaces/${workspace}/policy`)).memory;
  const quiet = ada.page.getByRole('switch', { name: 'Remember conversations once quiet' });
  await quiet.uncheck();
  await quiet.and(ada.page.locator(':enabled')).waitFor();
  assert.equal((await rules()).quiet, false);
  await quiet.check();
  const keep = ada.page.getByLabel('Keep automatic memories');
  await keep.selectOption('90 days after their last use');
  await dialog(ada).getByText('that no reply has used for 90 days').waitFor();
  await inspect(ada, 'memory-retention');
  await button(ada.page, 'Cancel').click();
  assert.equal(await keep.inputValue(), '');
  await keep.selectOption('90 days after their last use');
  await button(dialog(ada), 'Forget').click();
  await dialog(ada).waitFor({ state: 'detached' });
  assert.equal((await rules()).retention_days, 90);
  await bo.page.goto(`${SETTINGS}/told`);
  const shown = bo.page.getByLabel('Keep automatic memories');
  await shown.and(bo.page.locator(':disabled')).waitFor();
  assert.equal(await shown.inputValue(), '90');
  const stored = ada.page.waitForResponse((r) => r.url().endsWith('/policy'));
  await keep.selectOption('Until someone forgets them');
  await stored;
  await ada.page.reload();
  await keep.waitFor();
  assert.equal(await keep.inputValue(), '');
});

test('a thread’s menu opens its memory: the switch, the entries, and the summary', async () => {
  await ada.page.goto(thread);
  await button(ada.page, 'Thread menu').click();
  await accessible(ada.page, 'the thread menu');
  await pictures(ada, 'memory-thread-menu');
  await pick(ada, 'Memory of this thread');
  const panel = ada.page.getByRole('region', { name: 'Memory of this thread', exact: true });
  const on = panel.getByRole('switch', { name: 'Agents remember this thread' });
  await entry(ada, 'The harbor ferry starts at Pier 4711', panel).waitFor();
  assert.match(ada.page.url(), /panel=memory:thread_/);
  await inspect(ada, 'memory-thread');
  await on.uncheck();
  await on.and(ada.page.locator(':enabled')).waitFor();
  assert.equal((await api(ada, 'GET', `threads/${threadId(ada)}`)).memory, 'off');
  assert.equal((await texts(ada, `thread_id=${threadId(ada)}`)).length, 1, 'the entries stay');
  await openMenu(ada, 'Pier 12');
  await ada.page.getByRole('menuitem', { name: 'Copy text' }).waitFor();
  assert.equal(await ada.page.getByRole('menuitem', { name: 'Remember…' }).count(), 0);
  await ada.page.keyboard.press('Escape');
  await ada.page.reload();
  assert.equal(await on.isChecked(), false);
  await on.check();
  await button(panel, 'Forget all').click();
  await dialog(ada).getByRole('button', { name: 'Forget all' }).click();
  await toast(ada, '1 memory forgotten');
  assert.deepEqual(await texts(ada, `thread_id=${threadId(ada)}`), []);
  await button(panel, 'Close').click();
  await panel.waitFor({ state: 'detached' });
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
