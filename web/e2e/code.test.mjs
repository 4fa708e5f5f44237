// Code in threads: repositories in the settings, turns of a scripted runner, their changes, reviews, pushes, and questions.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { accessible, box, button, message, PHONE, shot, startThread, WIDE } from './lib/browser.mjs';
import { answers, composer, dialog, idle, inspect, main, pictures, threadId, toast } from './lib/parts.mjs';
import { changedFile, Runner, Turn } from './lib/runner.mjs';
import { api, startTeam } from './lib/team.mjs';

const { server, ada, bo } = await startTeam({ model: true, bo: { theme: 'light' } });
/** @type {Runner} */
let runner;
after(() => runner?.close());

const card = (p) => p.page.getByRole('article', { name: 'Changes: api', exact: true });
const panel = (p) => p.page.getByRole('region', { name: 'Changes', exact: true });
const files = (p) => panel(p).getByRole('list', { name: 'Files', exact: true });
const lines = (p) => panel(p).getByRole('group', { name: 'Lines', exact: true });
/** The composer repeats the chip of a reply. */
const chip = (p, words) => main(p).getByText(words).first();

const HOSTILE = 'src/<img src=x onerror=alert(1)>.js';
const PATCH = [
  'diff --git a/src/sum.js b/src/sum.js',
  `index ${'1'.repeat(40)}..${'2'.repeat(40)} 100644`,
  '--- a/src/sum.js',
  '+++ b/src/sum.js',
  '@@ -11,3 +11,3 @@ export function sum(a, b) {',
  '   // adds',
  '-  return a - b;',
  '+  return a + b; // \u202Eb + a nruter',
  ' }',
  `diff --git a/${HOSTILE} b/${HOSTILE}`,
  'new file mode 100644',
  `index ${'0'.repeat(40)}..${'3'.repeat(40)}`,
  '--- /dev/null',
  `+++ b/${HOSTILE}\t`,
  '@@ -0,0 +1 @@',
  '+<script>alert(1)</script>',
  '\\ No newline at end of file',
  '',
].join('\n');
const FILES = [changedFile('src/sum.js', 1, 1), { ...changedFile(HOSTILE, 1, 0), status: 'added' }];

/** Asks Coder for work in a new thread of #general, and returns the turn. */
async function ask(p = ada, words = '@coder fix the sum') {
  await p.page.goto('/northwind/c/general');
  await startThread(p.page, words);
  return Turn.first(runner);
}
/** Starts a turn that ends with changes. */
async function changed(more = {}) {
  const turn = await ask();
  await turn.write('Fix the sum\n\nIt subtracted.');
  await turn.done({ patch: PATCH, files: FILES, ...more });
  await card(ada).waitFor();
  return turn;
}

test('an admin adds a runner with one command, and allows its repository in a channel', async () => {
  const { page } = ada;
  await page.goto('/northwind/settings/repositories');
  await main(ada).getByRole('heading', { name: 'Repositories' }).waitFor();
  await button(page, 'Add a runner').click();
  await box(page, 'Name').fill('build-1');
  await button(page, 'Add').click();
  const command = await box(page, 'Command').inputValue();
  await accessible(page, 'the command of a runner');
  assert.match(command, /^openvibe runner --server http\S+ --key ovr_\S+ --repository api=PATH_OR_URL$/);
  runner = await new Runner(server.base, /--key (\S+)/.exec(command)[1]).connect('api');
  await dialog(ada).getByText('build-1 is connected').waitFor();
  await button(page, 'Done').click();
  const table = main(ada).getByRole('table', { name: 'Repositories', exact: true });
  await table.getByText('Offered by build-1').waitFor();
  await button(page, 'Allow api').click();
  await dialog(ada).getByText('Everyone in these channels will see its code.').waitFor();
  await dialog(ada).getByRole('checkbox', { name: '#general' }).check();
  await dialog(ada).getByRole('combobox', { name: 'Engine' }).selectOption('claude');
  await dialog(ada).getByText('Can reach the web through models.example.com').waitFor();
  await accessible(page, 'rights in a repository');
  await dialog(ada).getByRole('button', { name: 'Allow', exact: true }).click();
  await table.getByText('#general').waitFor();
  await inspect(ada, 'repositories');
});

test('members have no repositories in their settings', async () => {
  await bo.page.goto('/northwind/settings/repositories');
  await main(bo).getByText('Only admins can see this page.').waitFor();
});

test('the chip, the plan, and the steps follow a turn', async () => {
  await ada.page.goto('/northwind/c/general');
  await startThread(ada.page, '@coder look at the sum');
  await chip(ada, /^(Preparing api|Waiting for build-1)/).waitFor();
  const turn = await Turn.first(runner);
  await turn.event({
    type: 'plan',
    entries: [
      { content: 'Read the code', status: 'completed' },
      { content: 'Fix it', status: 'in_progress' },
    ],
  });
  await turn.step(0, 'Read src/sum.js', 'read', 'done');
  await turn.step(1, '`npm test`', 'execute');
  await chip(ada, /^Running npm test · \d+ s$/).waitFor();
  await button(ada.page, 'Plan · 1 of 2').click();
  await main(ada).getByRole('list', { name: 'Plan' }).getByText('Fix it').waitFor();
  await button(ada.page, '2 steps').click();
  await main(ada).getByRole('list', { name: 'Steps' }).getByText('Read src/sum.js').waitFor();
  await accessible(ada.page, 'a turn in a repository');
  await pictures(ada, 'code-turn');
  // Others see the same, also if they open the thread during the turn.
  await bo.page.goto(new URL(ada.page.url()).pathname);
  while (!(await button(bo.page, '2 steps').isVisible())) {
    // Frames are not repeated for a page that is still loading.
    await turn.step(1, '`npm test`', 'execute');
    await bo.page.waitForTimeout(200);
  }
  await turn.step(1, '`npm test`', 'execute', 'done');
  await turn.write('It is fine.');
  const step = { kind: 'step', task: turn.task, step: 0, title: 'Read src/sum.js', state: 'done', ms: 40 };
  const content = { kind: 'content', task: turn.task, step: 0, text: '<b>return</b>' };
  await turn.done({ log: [step, content].map((line) => JSON.stringify(line)).join('\n') });
  await answers(ada, 'Coder').getByText('It is fine.').waitFor();
  assert.equal(await card(ada).count(), 0, 'there are no changes');
  await button(ada.page, 'Log').click();
  await dialog(ada).getByText('<b>return</b>').waitFor();
  await accessible(ada.page, 'the log of a turn');
  await ada.page.keyboard.press('Escape');
});

test('a review shows the lines as text, and its comments become one message', async () => {
  const turn = await changed();
  await card(ada).getByText('Coder worked in api on branch vibe/').waitFor();
  await card(ada).getByText('Tests passed, 41 s').waitFor();
  await inspect(ada, 'code-card');
  await card(ada).getByRole('button', { name: 'Review' }).click();
  await files(ada).getByRole('button', { name: HOSTILE }).waitFor();
  assert.match(ada.page.url(), /panel=code:code_/);
  await lines(ada).getByText('<script>alert(1)</script>').waitFor();
  await lines(ada).getByText('\\u{202E}b + a nruter').waitFor();
  assert.equal(await panel(ada).locator('img, script').count(), 0);
  await button(ada.page, 'Side by side').waitFor();
  await accessible(ada.page, 'changes side by side');
  await pictures(ada, 'code-split');
  await button(ada.page, 'Unified').click();
  await accessible(ada.page, 'changes in one column');
  await ada.page.setViewportSize(PHONE);
  await button(ada.page, 'Unified').waitFor({ state: 'detached' });
  await accessible(ada.page, 'changes at 390 px');
  await shot(ada.page, 'code-390');
  await ada.page.setViewportSize(WIDE);
  await button(ada.page, 'Comment on line 12').click();
  await box(ada.page, 'Comment on line 12').fill('Why not reduce?');
  await button(ada.page, 'Comment on removed line 12').click();
  await box(ada.page, 'Comment on removed line 12').fill('Since when was this wrong?');
  await button(ada.page, 'Send 2 comments').click();
  await toast(ada, 'Sent 2 comments');
  await message(ada.page, 'Why not reduce?').waitFor();
  const next = await Turn.next(runner);
  assert.equal(next.session, turn.session);
  assert.match(next.prompt, /Why not reduce\?/);
  assert.match(next.prompt, /return a \+ b;/);
  await next.write('Because of reasons.');
  // Other changes do not replace those on screen before people want to see them.
  await next.done({ tree: '4', patch: PATCH.replace('a + b', 'b + a'), files: FILES });
  await panel(ada).getByText('There are newer changes.').waitFor();
  assert.equal(await lines(ada).getByText('return b + a').count(), 0);
  await button(ada.page, 'Show them').click();
  await lines(ada).getByText('return b + a').waitFor();
  await panel(ada).getByRole('button', { name: 'Close' }).click();
  await panel(ada).waitFor({ state: 'detached' });
});

test('the person who asked pushes the changes, with another title', async () => {
  const turn = await changed();
  await bo.page.goto(new URL(ada.page.url()).pathname);
  await card(bo).getByText('Waiting for Ada Lindholm to approve.').waitFor();
  assert.equal(await button(bo.page, 'Approve and push').count(), 0);
  await card(ada).getByRole('button', { name: 'Edit text' }).click();
  await box(ada.page, 'Title').fill('Add instead of subtracting');
  await accessible(ada.page, 'the text of a commit');
  await button(ada.page, 'Save').click();
  await card(ada).getByText('Add instead of subtracting').waitFor();
  await card(ada).getByRole('button', { name: 'Approve and push' }).click();
  const push = await runner.command('push');
  assert.equal(push.title, 'Add instead of subtracting');
  assert.equal(push.tree, '2'.repeat(40));
  const url = 'https://git.example/team/api/pull/7';
  await runner.event(turn.session, {
    type: 'pushed',
    action: push.action,
    commit: '5'.repeat(40),
    url,
    note: null,
  });
  for (const p of [ada, bo]) {
    await card(p).getByText('Pushed by').waitFor();
    const link = card(p).getByRole('link', { name: 'Open pull request' });
    assert.equal(await link.getAttribute('href'), url);
  }
  await accessible(ada.page, 'pushed changes');
});

test('denied changes stay visible, and can be downloaded', async () => {
  await changed({ check: { state: 'failed', ms: 900 } });
  await card(ada).getByText('Tests failed').waitFor();
  await card(ada).getByRole('button', { name: 'Deny' }).click();
  await card(ada)
    .getByText(/^Denied by you/i)
    .waitFor();
  const [saved] = await Promise.all([
    ada.page.waitForEvent('download'),
    card(ada).getByRole('button', { name: 'Download patch' }).click(),
  ]);
  assert.match(saved.suggestedFilename(), /^vibe-\d+\.patch$/);
  await idle(ada);
  await card(ada).getByRole('button', { name: 'Ask Coder to fix it' }).click();
  await message(ada.page, 'The check failed. Please fix it.').waitFor();
  const next = await Turn.next(runner);
  await next.write('Done.');
  await next.done({ tree: '6', patch: PATCH, files: FILES });
  await card(ada).getByText('Tests passed, 41 s').waitFor();
  assert.equal(await card(ada).count(), 1, 'only the last reply has the changes');
});

test('questions of an agent are answered with an option, or in a form', async () => {
  const turn = await ask();
  const question = (title) => ada.page.getByRole('article', { name: `Question: ${title}`, exact: true });
  const options = [
    { id: 'a', name: 'The first' },
    { id: 'b', name: 'The second' },
  ];
  await turn.event({ type: 'ask', ask: 'q1', kind: 'question', title: 'Which sum?', options, schema: null });
  await question('Which sum?').getByRole('button', { name: 'The second' }).waitFor();
  await chip(ada, 'Waiting for your answer').waitFor();
  await inspect(ada, 'code-question');
  await question('Which sum?').getByRole('button', { name: 'The second' }).click();
  assert.deepEqual((({ ask, value }) => [ask, value])(await runner.command('answer')), ['q1', 'b']);
  const schema = {
    type: 'object',
    properties: {
      name: { type: 'string', title: 'Function' },
      kind: { type: 'string', title: 'Kind', enum: ['int', 'float'] },
    },
    required: ['name', 'kind'],
  };
  await turn.event({ type: 'ask', ask: 'q2', kind: 'question', title: 'Details?', options: [], schema });
  await question('Details?').getByRole('textbox', { name: 'Function' }).fill('sum');
  assert.ok(await question('Details?').getByRole('button', { name: 'Answer' }).isDisabled());
  await question('Details?').getByRole('combobox', { name: 'Kind' }).selectOption('int');
  await accessible(ada.page, 'a form of an agent');
  await question('Details?').getByRole('button', { name: 'Answer' }).click();
  assert.deepEqual((await runner.command('answer')).value, { name: 'sum', kind: 'int' });
  await turn.write('Thanks.');
  await turn.done({});
});

test('a patch of 2 MiB opens without a long task, and only lines on screen are in the page', async () => {
  let patch = '';
  const changes = [];
  for (let file = 0; patch.length < 2 << 20; file++) {
    const path = `src/f${file}.js`;
    const body = Array.from({ length: 100 }, (_, n) => `-line ${n} before\n+line ${n} after, and more`);
    patch += `diff --git a/${path} b/${path}\n--- a/${path}\n+++ b/${path}\n@@ -1,100 +1,100 @@\n${body.join('\n')}\n`;
    if (file < 300) changes.push(changedFile(path, 100, 100));
  }
  await changed({ patch, files: changes });
  await ada.page.evaluate(() => {
    window.longest = 0;
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) window.longest = Math.max(window.longest, duration);
    }).observe({ type: 'longtask' });
    window.pressedAt = performance.now();
  });
  await card(ada).getByRole('button', { name: 'Review' }).click();
  await lines(ada).getByText('line 0 after, and more').first().waitFor();
  await ada.page.evaluate(() => (window.shownAt = performance.now()));
  const count = () => lines(ada).locator('.line').count();
  assert.ok((await count()) < 150, 'only lines on screen are in the page');
  await files(ada).evaluate((list) => (list.scrollTop = list.scrollHeight));
  await files(ada).getByRole('button').last().click();
  await lines(ada).getByText('line 99 after, and more').first().waitFor();
  assert.ok((await count()) < 150, 'also after a jump');
  const [ms, longest] = await ada.page.evaluate(() => [window.shownAt - window.pressedAt, window.longest]);
  console.log(`2 MiB: ${Math.round(ms)} ms, longest task ${Math.round(longest)} ms`);
  await panel(ada).getByRole('button', { name: 'Close' }).click();
});

test('other people’s threads and missing sessions have no panel', async () => {
  await ada.page.goto('/northwind/c/general?panel=code:code_01a00000000000000000000000');
  await panel(ada).getByText('These changes are no longer available.').waitFor();
  await accessible(ada.page, 'a missing session');
  await ada.page.goto('/northwind/c/general');
  await startThread(ada.page, 'No code here');
  assert.deepEqual((await api(ada, 'GET', `code-sessions?thread_id=${threadId(ada)}`)).data, []);
  assert.equal(await composer(ada).count(), 1);
});

test('no page logged an error', () => {
  assert.deepEqual([ada.errors, bo.errors], [[], []]);
});
