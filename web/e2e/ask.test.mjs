import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  accessible,
  box,
  button,
  inviteLink,
  joinBy,
  person,
  reply,
  setUp,
  shot,
  startThread,
} from './lib/browser.mjs';
import { agentPanel, answers, composer, editLink, idle, side, threadRow } from './lib/parts.mjs';
import { Server } from './lib/server.mjs';
import { startTeam } from './lib/team.mjs';

const { server, model, browser, ada, bo } = await startTeam({
  model: true,
  env: { OPENVIBE_RETRY_DELAYS: '2s,2s,2s' },
});
let cy;

test('a mention shows before sending which agent will reply', async () => {
  await startThread(ada.page, 'Friday or Monday for the launch?');
  await composer(ada).fill('@vibe a long answer, and hold it, please');
  await ada.page.getByText('Vibe will reply here').waitFor();
});

test('the reply streams to everyone who is watching', async () => {
  await bo.page
    .locator('main')
    .getByRole('link', { name: /Friday or Monday/ })
    .click();
  await composer(ada).press('Enter');
  for (const p of [ada, bo]) {
    await answers(p, 'Vibe').getByText('last-write-wins for each field is enough').waitFor();
    await answers(p, 'Vibe')
      .getByText(/Writing \d+ s/)
      .waitFor();
    assert.equal(await p.page.locator('[aria-busy=true]').count(), 1);
  }
});

test('a late viewer gets the text so far', async () => {
  const link = await inviteLink(ada.page);
  cy = await person(browser, server.base);
  await joinBy(cy.page, link, { name: 'Cy Twombly', email: 'cy@example.com' });
  await cy.page
    .locator('main')
    .getByRole('link', { name: /Friday or Monday/ })
    .click();
  await answers(cy, 'Vibe').getByText('last-write-wins for each field is enough').waitFor();
  assert.equal(await cy.page.locator('[aria-busy=true]').count(), 1);
});

test('the reply ends the same for all, with its duration and What it saw', async () => {
  model.release();
  for (const p of [ada, bo, cy]) {
    await answers(p, 'Vibe').getByText('two quiet days before the fair').waitFor();
    await answers(p, 'Vibe')
      .getByRole('button', { name: /What it saw/ })
      .waitFor();
    await p.page.waitForFunction(() => document.querySelectorAll('[aria-busy=true]').length === 0);
  }
  const [a, b, c] = await Promise.all(
    [ada, bo, cy].map((p) => answers(p, 'Vibe').locator('.prose').innerText()),
  );
  assert.equal(a, b);
  assert.equal(b, c);
  await ada.page.reload();
  await answers(ada, 'Vibe').getByText('two quiet days before the fair').waitFor();
  assert.equal(await answers(ada, 'Vibe').locator('figure.code').count(), 1);
});

test('What it saw shows the model’s input', async () => {
  await answers(ada, 'Vibe')
    .getByRole('button', { name: /What it saw/ })
    .click();
  const panel = ada.page.getByRole('region', { name: 'What Vibe saw' });
  await panel.getByText('Friday or Monday for the launch?').first().waitFor();
  await panel.getByText('Conversation', { exact: true }).click();
  const sent = model.asked.find((b) => b.stream && /hold it/.test(b.messages.at(-1).content));
  await panel.getByText('The person asking is Ada Lindholm (role: admin).').first().waitFor();
  const shown = await panel.locator('pre').allInnerTexts();
  for (const m of sent.messages.filter((m) => m.role !== 'system')) {
    assert.ok(
      shown.some((t) => t.trim() === m.content.trim()),
      `not shown: ${m.content}`,
    );
  }
  await ada.page.goBack();
  await panel.waitFor({ state: 'detached' });
});

test('two agents in one message post two replies', async () => {
  await reply(bo.page, '@vibe and @coder, are we ready?');
  await answers(ada, 'Coder').getByText('The build is green.').waitFor();
  await ada.page.waitForFunction(
    () =>
      [...document.querySelectorAll('article')].filter((a) => a.ariaLabel.startsWith('Vibe, ')).length === 2,
  );
});

test('Stop keeps the text so far for everyone, and Retry runs the task again', async () => {
  await reply(ada.page, '@coder a long one, hold');
  const mine = answers(ada, 'Coder').last();
  await mine.getByText(/Writing/).waitFor();
  await mine.getByText('last-write-wins').waitFor();
  const bar = ada.page.locator('.composer');
  await bar.getByText('Coder is writing').waitFor();
  await composer(ada).fill('@vibe and you?');
  await bar.getByText('Coder writing').waitFor();
  await bar.getByText('Vibe', { exact: true }).waitFor();
  await accessible(ada.page, 'a draft beside a reply in progress');
  await shot(ada.page, '22-draft-beside-reply-dark');
  await composer(ada).fill('');
  await bar.getByRole('button', { name: 'Stop' }).click();
  for (const p of [ada, bo]) {
    await answers(p, 'Coder').last().getByText('Interrupted. The text so far is kept.').waitFor();
    await answers(p, 'Coder').last().getByText('last-write-wins').waitFor();
  }
  assert.equal(
    await bo.page.getByRole('button', { name: 'Retry' }).count(),
    0,
    'only the asker or an admin retries',
  );
  await mine.getByRole('button', { name: 'Retry' }).click();
  await answers(bo, 'Coder')
    .last()
    .getByText(/Writing/)
    .waitFor();
  model.release();
  for (const p of [ada, bo]) {
    await p.page.getByText('Interrupted').waitFor({ state: 'detached' });
    await answers(p, 'Coder').last().getByText('two quiet days before the fair').waitFor();
  }
});

test('a model that is briefly down is retried, with a countdown', async () => {
  await reply(ada.page, '@vibe flaky');
  await answers(bo, 'Vibe')
    .getByText(/Retrying/)
    .waitFor();
  await answers(bo, 'Vibe').getByText('The same request will be sent again').waitFor();
  await answers(bo, 'Vibe').last().getByText('Monday: two quiet days before the fair.').waitFor();
});

test('a failure notice explains the reason and the next step, and offers Retry', async () => {
  await idle(ada);
  await reply(ada.page, '@vibe refuse this');
  for (const p of [ada, bo])
    await p.page.getByRole('article').filter({ hasText: 'Failed' }).filter({ hasText: 'Vibe' }).waitFor();
  await ada.page
    .getByRole('article')
    .filter({ hasText: 'Failed' })
    .getByRole('button', { name: 'Retry' })
    .waitFor();
});

test('the row of a thread with a failed reply says so, also after a reload', async () => {
  const open = new URL(ada.page.url()).pathname;
  await side(ada).getByRole('link', { name: 'general' }).click();
  const chip = threadRow(ada, 'Friday or Monday').getByText('Failed', { exact: true });
  await chip.waitFor();
  await ada.page.reload(); // the snapshot has only tasks in progress
  await chip.waitFor();
  await shot(ada.page, '23-failed-in-row-dark');
  await ada.page.goto(open);
  await composer(ada).waitFor();
});

test('in a direct channel, an agent replies to every message without a mention', async () => {
  await side(ada).getByRole('button', { name: 'Coder' }).click();
  await button(ada.page, 'Message Coder').click();
  const write = box(ada.page, 'Message Coder');
  await write.fill('Is the fair on Wednesday?');
  await ada.page.getByText('Coder will reply here').waitFor();
  await ada.page.keyboard.press('Enter');
  await answers(ada, 'Coder').getByText('Monday: two quiet days').waitFor();
  await write.fill('And the build?');
  await ada.page.keyboard.press('Enter');
  await ada.page.waitForFunction(
    () =>
      [...document.querySelectorAll('article')].filter(
        (a) => a.ariaLabel.startsWith('Coder, ') && a.textContent.includes('Monday'),
      ).length === 2,
  );
});

test('a new version appears immediately in everyone’s agent panel', async () => {
  const { page } = ada;
  await page.getByRole('navigation', { name: 'Workspace' }).getByRole('button', { name: 'Vibe' }).click();
  const panel = page.getByRole('region', { name: 'Agent', exact: true });
  await panel.getByRole('link', { name: 'Agent settings' }).click();
  await editLink(ada).click();
  await side(bo).getByRole('button', { name: 'Vibe' }).click();
  await box(page, 'Instructions').fill('You are Vibe. Rhyme.');
  await button(page, 'Save').click();
  const theirs = agentPanel(bo);
  await theirs.getByRole('link', { name: '2', exact: true }).waitFor();
  await reply(bo.page, '@vibe say it in verse');
  const asked = await model.until((b) => /in verse/.test(b.messages.at(-1).content));
  assert.match(asked.messages[0].content, /^You are Vibe\. Rhyme\.$/m);
});

test('mentions of an inactive agent are plain text; the default agent cannot be deactivated', async () => {
  const { page } = ada;
  const panel = page.getByRole('region', { name: 'Agent', exact: true });
  const off = page.getByRole('menuitem', { name: 'Deactivate' });
  await page.getByRole('button', { name: 'Actions for Vibe' }).click();
  await page.getByRole('menuitem', { name: 'Duplicate' }).waitFor();
  assert.equal(await off.count(), 0);
  await page.keyboard.press('Escape');
  await side(ada).getByRole('button', { name: 'Coder' }).click();
  await panel.getByRole('link', { name: 'Agent settings' }).click();
  await page.getByRole('button', { name: 'Actions for Coder' }).click();
  await off.click();
  await page.getByRole('note').getByText('Inactive.').waitFor();
  await side(ada).getByRole('button', { name: 'Coder' }).waitFor({ state: 'detached' });
  const { pathname } = new URL(page.url());
  await page.goto(`${pathname}?panel=agent:${/agent_\w+/.exec(pathname)[0]}`);
  await panel.getByText('Inactive').waitFor();
  await composer(bo).fill('@co');
  await bo.page.waitForFunction(
    () => ![...document.querySelectorAll('[role=option]')].some((o) => o.textContent.includes('Coder')),
  );
  await composer(bo).fill('');
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors, ...cy.errors], []);
});

test('without a model, the built-in responder replies and identifies itself', async () => {
  const alone = await new Server().start();
  const eve = await person(browser, alone.base);
  try {
    await setUp(eve.page, { name: 'Eve', email: 'eve@example.com' });
    await startThread(eve.page, 'The fair is on Wednesday, in the old hall.');
    await reply(eve.page, '@vibe when is the fair?');
    await answers(eve, 'Vibe').getByText('built-in responder').waitFor();
    await answers(eve, 'Vibe').getByText('Wednesday').waitFor();
    await answers(eve, 'Vibe')
      .getByRole('button', { name: /What it saw/ })
      .waitFor();
    assert.deepEqual(eve.errors, []);
  } finally {
    await alone.close();
  }
});
