// Agent details on pages: the model that replies, limits, long instructions, and options without effect.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  accessible,
  box,
  button,
  launch,
  person,
  PHONE,
  reply,
  setUp,
  shot,
  startThread,
} from './lib/browser.mjs';
import { agentCard, agentPanel, dialog, editLink, main, side } from './lib/parts.mjs';
import { Server } from './lib/server.mjs';
import { api, startTeam } from './lib/team.mjs';

const AGENTS = '/northwind/settings/agents';
const ASKED = 'claude-sonnet-4-5';
const { ada, model } = await startTeam({ model: true, bo: null });
const fact = (where, name) => where.locator(`dt:text-is("${name}") + dd`);
const openPanel = (p, name) => side(p).getByRole('button', { name }).click();

/** Checks that every page that names a model shows the one that replies. */
async function namesModel(p, runs, words) {
  await p.page.goto(AGENTS);
  await agentCard(p, 'Coder').getByTitle(words).waitFor();
  await agentCard(p, 'Coder').getByRole('link').click();
  assert.equal(await fact(main(p), 'Model').innerText(), words);
  await editLink(p).click();
  await main(p).getByText(`${words} · up to 8,192 output tokens`).waitFor();
  await openPanel(p, 'Coder');
  await fact(agentPanel(p), 'Model').waitFor();
  assert.equal(await fact(agentPanel(p), 'Model').innerText(), words);
  await p.page.goto('/northwind/settings/model');
  await main(p).getByText(runs, { exact: true }).first().waitFor();
}

test('pages name the model that replies, and the profile’s model', async () => {
  await namesModel(ada, 'scripted-1', `Uses scripted-1: ${ASKED} is not available`);
  await main(ada)
    .getByText('Agents use scripted-1 unless their profile asks for another model that the server has.')
    .waitFor();
  assert.equal(await main(ada).getByText('OPENVIBE_MODEL is set').count(), 0);
});

test('with OPENVIBE_MODEL, Settings shows that every agent uses it, and every page names it', async () => {
  const server = await new Server({
    OPENVIBE_MODEL_BASE_URL: model.base,
    OPENVIBE_MODEL: 'tiny-model',
  }).start();
  const browser = await launch();
  try {
    const eve = await person(browser, server.base);
    await setUp(eve.page, { name: 'Eve', email: 'eve@example.com' });
    await namesModel(eve, 'tiny-model', 'This server uses tiny-model for all agents');
    await main(eve).getByText('OPENVIBE_MODEL is set: every agent uses tiny-model.').waitFor();
    await accessible(eve.page, 'the model page with OPENVIBE_MODEL');
    await shot(eve.page, 'model-page-override');
    await eve.page.goto('/northwind/c/general');
    await startThread(eve.page, 'When is the fair?');
    await reply(eve.page, '@coder when?');
    const asked = await model.until((b) => /@coder when\?/.test(b.messages.at(-1).content));
    assert.equal(asked.model, 'tiny-model');
    await eve.page.getByRole('button', { name: /What it saw/ }).click();
    const saw = eve.page.getByRole('region', { name: 'What Coder saw' });
    await fact(saw, 'Model').waitFor();
    assert.equal(await fact(saw, 'Model').innerText(), 'tiny-model');
    assert.deepEqual(eve.errors, []);
  } finally {
    await browser.close();
    await server.close();
  }
});

test('an agent that inherits its output limit shows the limit of its base', async () => {
  const base = await api(ada, 'POST', 'agents', {
    name: 'desk',
    display_name: 'Desk',
    instructions: 'You belong to the desk.',
    mentionable: false,
    max_output_tokens: 12_345,
  });
  const child = await api(ada, 'POST', 'agents', {
    name: 'quill',
    display_name: 'Quill',
    instructions: 'You write.',
    base_profile_id: base.id,
  });
  await ada.page.goto(`${AGENTS}/${child.id}/edit`);
  await main(ada)
    .getByText(/up to 12,345 output tokens/)
    .waitFor();
});

test('instructions above 2,000 tokens show a warning, shorter ones do not', async () => {
  const WARNING = 'Long instructions make every reply slower and more expensive.';
  await ada.page.goto(`${AGENTS}/new`);
  const told = ada.page.getByRole('region', { name: 'What it is told' });
  await box(ada.page, 'Instructions').fill('You write short texts.');
  await told.getByText('You write short texts.').waitFor();
  assert.equal(await main(ada).getByText(WARNING).count(), 0);
  await box(ada.page, 'Instructions').fill('Write one short sentence. '.repeat(600));
  await main(ada).getByText(WARNING).waitFor();
  await accessible(ada.page, 'long instructions');
  await box(ada.page, 'Instructions').fill('You write short texts.');
  await main(ada).getByText(WARNING).waitFor({ state: 'detached' });
});

test('excerpts in What it saw have no author labels', async () => {
  await ada.page.goto('/northwind/c/general');
  await startThread(ada.page, 'Friday or Monday for the launch?');
  await reply(ada.page, '@coder what do you say?');
  await ada.page.getByRole('button', { name: /What it saw/ }).waitFor();
  await ada.page.getByRole('button', { name: /What it saw/ }).click();
  const saw = ada.page.getByRole('region', { name: 'What Coder saw' });
  await saw.getByRole('link', { name: 'Friday or Monday for the launch?', exact: true }).waitFor();
  assert.equal(await saw.getByRole('listitem').filter({ hasText: '[Ada' }).count(), 0);
});

test('the form and the templates offer no option without effect; an import lists those of its file', async () => {
  const { data: templates } = await api(ada, 'GET', 'agent-templates');
  for (const t of templates) assert.equal(t.role, null, t.name);
  await ada.page.goto(`${AGENTS}/new`);
  await box(ada.page, 'Instructions').waitFor();
  for (const name of ['Role', 'Sandbox', 'Model for summaries', 'When it passes work on'])
    assert.equal(await ada.page.getByLabel(name, { exact: true }).count(), 0, name);
  await ada.page.goto(AGENTS);
  await button(ada.page, 'Import').click();
  const settings = {
    object: 'agent_export',
    format: 1,
    agent: {
      role: 'reviewer',
      sentiment: { enabled: true },
      tools: [{ type: 'function', name: 'look_up' }, { type: 'delegate' }],
    },
    files: {},
  };
  const file = (name, text) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(text) });
  await dialog(ada)
    .getByLabel('Choose files')
    .setInputFiles([
      file('SOUL.md', 'You are Fern.'),
      file('MEMORY.md', 'Likes shade.'),
      file('agent.json', JSON.stringify(settings)),
    ]);
  await box(ada.page, 'Name').fill('fern');
  await button(ada.page, 'Import agent').click();
  const effects = dialog(ada).getByRole('list', { name: 'Effects of the files' });
  await effects.waitFor();
  assert.deepEqual(await effects.getByRole('listitem').allInnerTexts(), [
    'MEMORY.md: the first 2,000 tokens are sent with every reply',
    "SOUL.md: sent with every reply as the agent's instructions",
  ]);
  const unused = dialog(ada).getByRole('list', { name: 'Options without effect' });
  await unused.waitFor();
  assert.deepEqual(await unused.getByRole('listitem').allInnerTexts(), ['role']);
  await accessible(ada.page, 'an import with options without effect');
  await shot(ada.page, 'import-options-wide');
  await ada.page.setViewportSize(PHONE);
  await accessible(ada.page, 'an import with options without effect, 390');
  await shot(ada.page, 'import-options-390');
  await button(ada.page, 'Open agent').click();
  await main(ada).getByRole('heading', { level: 1, name: 'fern' }).waitFor();
});

test('no page logged an error', () => {
  assert.deepEqual(ada.errors, []);
});
