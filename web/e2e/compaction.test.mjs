// Summaries that agents read instead of older messages: the line in the thread, the region that it opens, and
// live updates for two people.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { accessible, button, message, PHONE, reply, startThread, WIDE } from './lib/browser.mjs';
import {
  answers,
  dialog,
  forkPanel,
  inspect,
  main,
  messageList,
  pictures,
  threadId,
  toast,
} from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, bo, model } = await startTeam({ model: true, env: { OPENVIBE_COMPACTION_INTERVAL: '0s' } });
const SEGMENT = {
  gist: 'They planned the fair by the harbor.',
  items: [
    { text: 'The fair opens on Monday', kind: 'decision', sources: ['m2'], about: null, for_agent: false },
    { text: 'Who books the stage?', kind: 'open_loop', sources: ['m3'], about: null, for_agent: false },
    { text: 'The fair costs 9,999 euros', kind: 'fact', sources: ['m4'], about: null, for_agent: false },
  ],
};
const line = (p, text = /^Agents read/, within = messageList(p)) =>
  within.locator('.middle p > span').filter({ hasText: text });
const region = (p) => p.page.getByRole('region', { name: 'Summary for agents', exact: true });
const gone = (locator) => locator.waitFor({ state: 'detached' });
const announced = (p, text) =>
  p.page.locator('.said').filter({ hasText: text }).waitFor({ state: 'attached' });
const summarize = async (p, menu = 'Thread menu') => {
  await p.page.getByRole('button', { name: menu, exact: true }).click();
  if (menu === 'Dive menu') return p.page.getByRole('menuitem', { name: 'Shorten old messages now' }).click();
  await p.page.getByRole('menuitem', { name: 'Memory of this thread' }).click();
  const panel = p.page.getByRole('region', { name: 'Memory of this thread', exact: true });
  await button(panel, 'Shorten old messages now').click();
  await button(panel, 'Close').click();
};
const topOf = async (p, text) => (await message(p.page, text).last().boundingBox()).y;
/** Checks accessibility and takes screenshots with the region in view, in both themes and at both widths. */
const look = async (p, name) => {
  for (const [width, viewport] of [
    ['wide', WIDE],
    ['390', PHONE],
  ]) {
    await p.page.setViewportSize(viewport);
    await region(p).scrollIntoViewIfNeeded();
    await p.page.mouse.move(0, 0);
    await accessible(p.page, `${name}, ${width}`);
    await pictures(p, `${name}-${width}`);
  }
  await p.page.setViewportSize(WIDE);
  await region(p).scrollIntoViewIfNeeded();
};
/** Scrolls to the first message that agents receive in full, which is below the line. */
const findLine = async (p, text) => {
  const id = threadId(p);
  const { window } = await api(p, 'GET', `threads/${id}/compactions`);
  const { data } = await api(p, 'GET', `threads/${id}/messages?limit=100`);
  const first = data.find((m) => m.seq >= window.from_seq);
  await p.page.goto(`${new URL(p.page.url()).pathname}#m-${first.id}`);
  await line(p, text).waitFor();
};
const toEnd = (p) => messageList(p).press('End');
/** Posts messages through the API, which is faster than typing. */
const say = async (id, texts, of = 'threads') => {
  for (const [n, content] of texts.entries())
    await api(n % 2 ? bo : ada, 'POST', `${of}/${id}/messages`, { content });
};
const many = (count, text) => Array.from({ length: count }, (_, n) => `${text} ${n + 1}.`);
const FIRST = ['The fair opens on Monday, right?', 'Who books the stage?', 'It costs a lot.'];
const started = async (texts) => {
  await ada.page.goto('/northwind/c/general');
  await startThread(ada.page, texts[0]);
  const id = threadId(ada);
  await say(id, texts.slice(1));
  return id;
};
let thread = '';
let path = '';

before(async () => {
  model.segment = SEGMENT;
  thread = await started(['Planning the fair by the harbor']);
  path = new URL(ada.page.url()).pathname;
});

test('in a short thread there is nothing to summarize, and the menu says so', async () => {
  await summarize(ada);
  await toast(ada, 'There is nothing to summarize yet: agents read the newest messages in full.');
  assert.equal(await line(ada).count(), 0);
});

test('the line appears for everyone, and what people read does not move', async () => {
  await say(thread, [...FIRST, ...many(21, 'Stall number')]);
  await bo.page.goto(path);
  await toEnd(bo);
  await message(bo.page, 'Stall number 21.').last().waitFor();
  await message(ada.page, 'Stall number 21.').last().waitFor();
  const tops = [await topOf(ada, 'Stall number 21.'), await topOf(bo, 'Stall number 21.')];
  model.holdSegments = true;
  await summarize(ada);
  await toast(ada, 'Agents will read a summary of the earlier messages');
  await summarize(ada);
  await toast(ada, 'The earlier messages are already being summarized. Wait until this is done.');
  model.holdSegments = false;
  model.release();
  for (const p of [ada, bo]) {
    await line(p, 'Agents read a summary of the 15 messages above').waitFor();
    await announced(p, 'Agents read a summary of the 15 messages above');
  }
  assert.deepEqual([await topOf(ada, 'Stall number 21.'), await topOf(bo, 'Stall number 21.')], tops);
  // After a reload, the line is still between the messages that it separates.
  await bo.page.reload();
  await findLine(bo);
  const y = (await line(bo).boundingBox()).y;
  assert.ok((await topOf(bo, 'Stall number 11.')) < y && y < (await topOf(bo, 'Stall number 12.')));
});

test('with the keyboard: “Show summary” opens the region with its sentences, and a source leads to its message', async () => {
  const show = button(ada.page, 'Show summary');
  await show.focus();
  await ada.page.keyboard.press('Enter');
  const made = region(ada).getByRole('article', { name: 'Summary of 15 messages' });
  await made.getByText('They planned the fair by the harbor.').waitFor();
  assert.match(await made.innerText(), /scripted-1, \d\d:\d\d · \d+ → \d+ tokens/);
  const sentences = made.getByRole('listitem');
  assert.deepEqual(
    (await sentences.allInnerTexts()).map((text) => text.split('\n')[0]),
    ['Who books the stage?', 'The fair opens on Monday'],
  );
  const left = made.getByRole('button', { name: 'What was left out' });
  await left.click();
  await made.getByText('Left out: 1 fact.').waitFor();
  await look(ada, 'compaction-summary');
  await left.click();
  await gone(made.getByText('Left out: 1 fact.'));
  await sentences.nth(1).getByRole('button', { name: 'Source' }).click();
  await ada.page.waitForFunction(() => location.hash.startsWith('#m-'));
  const source = message(ada.page, 'The fair opens on Monday, right?').first();
  await source.waitFor();
  assert.equal(await source.evaluate((e) => `#${e.id}` === location.hash), true);
  await button(ada.page, 'Hide summary').press('Enter');
  await gone(region(ada));
});

test('another person has the original messages sent, and the summary again', async () => {
  for (const p of [ada, bo]) await button(p.page, 'Show summary').click();
  await button(region(bo), 'Send original messages').click();
  for (const p of [ada, bo]) {
    await line(p, 'Agents read the original 15 messages above').waitFor();
    await region(p).getByText('Original messages are sent').waitFor();
  }
  await pictures(bo, 'compaction-original');
  await reply(ada.page, '@vibe when does the fair open?');
  await answers(ada, 'Vibe').last().getByText('Monday: two quiet days').waitFor();
  const prompt = JSON.stringify(model.asked.findLast((body) => body.stream).messages);
  assert.ok(prompt.includes('It costs a lot.') && !prompt.includes('Summary of'), prompt);
  await button(region(ada), 'Send the summary').click();
  for (const p of [ada, bo]) await line(p, 'Agents read a summary of the 15 messages above').waitFor();
});

test('after an edit the line says that the summary is being updated', async () => {
  model.holdSegments = true;
  const [edited] = (await api(ada, 'GET', `threads/${thread}/messages?limit=50`)).data.filter(
    (m) => m.content === FIRST[0],
  );
  await api(ada, 'PATCH', `messages/${edited.id}`, { content: 'The fair opens on Tuesday, right?' });
  for (const p of [ada, bo]) {
    await line(p, 'A message changed. Updating…').waitFor();
    await region(p).getByText('A message changed. Updating…').waitFor();
  }
  await announced(bo, 'A message changed. Updating…');
  await look(bo, 'compaction-updating');
  model.segment = {
    ...SEGMENT,
    items: [{ ...SEGMENT.items[0], text: 'The fair opens on Tuesday' }, SEGMENT.items[1]],
  };
  model.holdSegments = false;
  model.release();
  for (const p of [ada, bo]) {
    await region(p).getByText('The fair opens on Tuesday').waitFor();
    await gone(line(p, 'Updating…'));
  }
});

test('“Make it again” asks the model again; if it refuses, the line says when it is tried next', async () => {
  model.segment = { gist: 'They planned a fair.', items: SEGMENT.items.slice(1, 2) };
  await button(region(bo), 'Make it again').click();
  for (const p of [ada, bo]) await region(p).getByText('They planned a fair.').waitFor();
  model.segment = null;
  await button(region(bo), 'Make it again').click();
  for (const p of [ada, bo]) await line(p, /Not summarized yet\. Next try at \d\d:\d\d/).waitFor();
  await pictures(bo, 'compaction-retry');
  await bo.page.reload();
  await findLine(bo, /Not summarized yet\. Next try at \d\d:\d\d/);
});

test('whoever asked for a summary, or an admin, deletes it; others cannot', async () => {
  await button(bo.page, 'Show summary').click();
  await region(bo).getByRole('article').waitFor();
  assert.equal(await button(region(bo), 'Delete').count(), 0);
  await button(region(ada), 'Delete').click();
  await dialog(ada).getByText('Delete this summary?').waitFor();
  await inspect(ada, 'compaction-delete');
  await dialog(ada).getByRole('button', { name: 'Delete' }).click();
  for (const p of [ada, bo]) {
    await gone(line(p, /^Agents read/));
    await gone(region(p));
  }
});

test('a reply that waits for a summary says so, in a thread of 90 messages', async () => {
  model.segment = SEGMENT;
  await started(['Planning the fair by the harbor', ...FIRST, ...many(86, 'Stall number')]);
  await message(ada.page, 'Stall number 86.').last().waitFor();
  model.holdSegments = true;
  await reply(ada.page, '@vibe when does the fair open?');
  await answers(ada, 'Vibe').getByText('Summarizing earlier messages').waitFor();
  await accessible(ada.page, 'a reply that waits for a summary');
  await pictures(ada, 'compaction-chip');
  model.holdSegments = false;
  model.release();
  await answers(ada, 'Vibe').last().getByText('Monday: two quiet days').waitFor();
  await gone(answers(ada, 'Vibe').getByText('Summarizing earlier messages'));
  await findLine(ada, /^Agents read a summary of the \d+ messages above$/);
  await toEnd(ada);
  await answers(ada, 'Vibe')
    .last()
    .getByRole('button', { name: /What it saw/ })
    .click();
  const saw = ada.page.getByRole('region', { name: 'What Vibe saw' });
  await saw.locator('.leg').getByText('Summary', { exact: true }).waitFor();
  await saw.getByText(/^\d+ older messages sent as a summary$/).waitFor();
  await button(saw, 'Close').click();
});

test('a deep dive has its own summary, from its own menu', async () => {
  const [root] = (await api(ada, 'GET', `threads/${thread}/messages?limit=1`)).data;
  const { fork } = await api(ada, 'POST', `threads/${thread}/forks`, { message_id: root.id, agent_id: null });
  await say(fork.id, ['The fair opens on Monday, right?', ...FIRST, ...many(18, 'Booth number')], 'forks');
  const [newest] = (await api(ada, 'GET', `forks/${fork.id}/messages?limit=100`)).data.slice(-1);
  for (const p of [ada, bo]) {
    await api(p, 'PUT', `forks/${fork.id}/read`, { seq: newest.seq });
    await p.page.goto(`${path}?panel=dive:${fork.id}`);
    await message(forkPanel(p), 'Booth number 18.').waitFor();
  }
  await summarize(ada, 'Dive menu');
  for (const p of [ada, bo]) {
    const inDive = p.page.getByRole('region', { name: 'Messages of the dive' });
    await line(p, 'Agents read a summary of the 12 messages above', inDive).waitFor();
  }
  await button(forkPanel(ada), 'Show summary').click();
  await region(ada).getByText('Who books the stage?').waitFor();
  await look(ada, 'compaction-dive');
});

test('the first thing that an agent remembers about a person is announced to them alone', async () => {
  model.segment = {
    gist: 'They talked about replies.',
    items: [
      {
        text: 'Ada prefers short replies',
        kind: 'preference',
        sources: ['m1'],
        about: 'p1',
        for_agent: false,
      },
    ],
  };
  const id = await started(['I prefer short replies, says Ada', ...many(13, 'Stall number')]);
  path = new URL(ada.page.url()).pathname;
  await message(ada.page, 'Stall number 13.').last().waitFor();
  await summarize(ada);
  await toast(ada, 'Vibe remembered something about you');
  await pictures(ada, 'compaction-remembered');
  assert.equal(await bo.page.locator('.toast').filter({ hasText: 'remembered' }).count(), 0);
  await button(ada.page.locator('.toast'), 'Review').click();
  await main(ada).getByRole('heading', { name: 'What agents remember about you', exact: true }).waitFor();
  const mine = ada.page.getByRole('region', { name: 'What agents remember about you', exact: true });
  await mine.getByRole('article', { name: 'Memory: Ada prefers short replies' }).waitFor();
  // Only the first memory is announced.
  const [item] = model.segment.items;
  model.segment = {
    gist: 'They talked.',
    items: [{ ...item, text: 'Ada prefers short tables', sources: ['m2'], about: 'p2' }],
  };
  await say(id, many(12, 'Tent number'));
  await ada.page.goto(path);
  await findLine(ada, 'Agents read a summary of the 4 messages above');
  await summarize(ada);
  await announced(ada, 'Agents read a summary of the 16 messages above');
  await findLine(ada, 'Agents read a summary of the 16 messages above');
  const remembered = (await api(ada, 'GET', 'memories?user_id=me')).data.map((e) => e.text);
  assert.deepEqual(remembered, ['Ada prefers short tables', 'Ada prefers short replies']);
  assert.equal(await ada.page.locator('.toast').filter({ hasText: 'remembered' }).count(), 0);
});

test('at 390 px the line wraps, and its controls are large enough', async () => {
  await bo.page.setViewportSize(PHONE);
  await bo.page.goto(path);
  await findLine(bo);
  await pictures(bo, 'compaction-line-390');
  assert.ok((await button(bo.page, 'Show summary').boundingBox()).height >= 44);
  await bo.page.setViewportSize(WIDE);
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
