import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, test } from 'node:test';
import { accessible, box, button } from './lib/browser.mjs';
import { agentCard, agentTab as tab, dialog, editLink, inspect, main, side } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';
import { fn, ToolServer } from './lib/tool-server.mjs';

const { model, ada, bo } = await startTeam({
  env: { OPENVIBE_MCP_ALLOW: '127.0.0.1' },
  model: true,
  bo: { theme: 'light' },
});
const { workspace } = await api(ada, 'GET', 'snapshot');
const AGENTS = '/northwind/settings/agents';
const section = (p, name) => p.page.locator('form').getByRole('button', { name: new RegExp(`^${name}`) });
const field = (p, name) => p.page.getByRole('textbox', { name, exact: true });
const told = (p) => p.page.getByRole('region', { name: 'What it is told' });
/** The text of a source, shown on the page of what an agent is told. */
const sourceText = async (p, name) => {
  await button(p.page, `Show ${name}`).click();
  return p.page.getByRole('region', { name: `Text of ${name}` });
};

/** Number of visible fields in the editor. Check boxes and radio buttons of a group are one field, and so is the picture. */
const countFields = (p) =>
  p.page.locator('form.editor .sections').evaluate((form) => {
    const fields = [...form.querySelectorAll('input, select, textarea')].filter((e) => e.checkVisibility());
    return new Set(fields.map((e) => e.closest('fieldset, .pick') ?? e)).size;
  });
const byName = async (name) => (await api(ada, 'GET', 'agents?limit=100')).data.find((a) => a.name === name);
const more = async (p, what) => {
  await p.page.getByRole('button', { name: /^Actions for/ }).click();
  await p.page.getByRole('menuitem', { name: what }).click();
};

test('the agent list filters by status and by words', async () => {
  await ada.page.goto(AGENTS);
  await agentCard(ada, 'Vibe').getByText('Default').waitFor();
  await agentCard(ada, 'Researcher').getByText('Inactive').waitFor();
  await main(ada).getByRole('heading', { name: 'Start from a template' }).waitFor();
  await inspect(ada, 'agents-list');
  await ada.page.getByRole('searchbox', { name: 'Find an agent' }).fill('@cod');
  await agentCard(ada, 'Vibe').waitFor({ state: 'detached' });
  await agentCard(ada, 'Coder').waitFor();
  await ada.page.getByRole('searchbox', { name: 'Find an agent' }).fill('zzz');
  await main(ada).getByText('No matching agents').waitFor();
  await accessible(ada.page, 'no matching agents');
  await button(ada.page, 'Show all agents').click();
  await main(ada)
    .getByRole('button', { name: /^Archived/ })
    .click();
  await main(ada).getByText('No agents are archived').waitFor();
  await main(ada)
    .getByRole('button', { name: /^In use/ })
    .click();
});

test('a new agent from a template, with its prompt beside the form', async () => {
  await main(ada)
    .getByRole('link', { name: /^Documentation writer/ })
    .click();
  await main(ada).getByRole('heading', { name: 'New agent', level: 1 }).waitFor();
  assert.equal(await field(ada, 'Name').inputValue(), 'Documentation writer');
  await main(ada).getByText('People write @docs-writer').waitFor();
  await told(ada).getByRole('heading', { name: 'Instructions Documentation writer' }).waitFor();
  await inspect(ada, 'agents-new');
  await field(ada, 'Name').fill('Quill');
  await button(ada.page, 'Change the handle').click();
  await field(ada, 'Handle').fill('vibe');
  await main(ada).getByText('@vibe is taken').waitFor();
  await field(ada, 'Handle').fill('quill');
  await field(ada, 'Instructions').fill('You are Quill.\n\n## What you are for\nShort texts.\n');
  await told(ada).getByText('Short texts.').waitFor();
  await button(ada.page, 'Create agent').click();
  await main(ada).getByRole('heading', { name: 'Quill', level: 1 }).waitFor();
  await side(ada).getByRole('button', { name: 'Quill' }).waitFor();
  assert.equal((await byName('quill')).version, 1);
  await inspect(ada, 'agents-overview');
  await tab(ada, 'What it is told').click();
  await (await sourceText(ada, 'Instructions')).getByText('Short texts.').waitFor();
  await inspect(ada, 'agents-told');
});

test('an edit previews the base and the workspace’s rules, survives a reload, and is saved as a version', async () => {
  await api(ada, 'PATCH', `workspaces/${workspace.id}/policy`, {
    required_text: 'Never share customer data.',
  });
  await api(ada, 'POST', 'agents', {
    name: 'desk',
    display_name: 'Desk',
    instructions: 'You belong to the desk.',
    mentionable: false,
  });
  await ada.page.reload();
  await tab(ada, 'Overview').click();
  await editLink(ada).click();
  await field(ada, 'Instructions').waitFor();
  assert.ok((await countFields(ada)) <= 10, `${await countFields(ada)} fields at first`);
  await section(ada, 'Based on').click();
  await ada.page.getByLabel('Agent that it is based on').selectOption({ label: 'Desk (@desk), base only' });
  await main(ada).getByText('Inherited from Desk').waitFor();
  await told(ada).getByRole('heading', { name: 'Based on Desk' }).waitFor();
  await told(ada).getByText('Never share customer data.').waitFor();
  await section(ada, 'Functions of programs').click();
  await field(ada, 'Functions (JSON)').fill('[{"type":"telepathy"}]');
  await main(ada).getByText('Function 1: "type" must be "function".').waitFor();
  await field(ada, 'Functions (JSON)').fill('[{"type":"function","name":"look_up"}]');
  await main(ada).getByText('1 function', { exact: true }).waitFor();
  await ada.page.getByRole('checkbox', { name: 'Ask other agents' }).check();
  await section(ada, 'Role in the team').click();
  await field(ada, 'Responsibilities').fill('Reads the brief\nAsks what is missing');
  await told(ada).getByText('Asks what is missing').waitFor();
  await inspect(ada, 'agents-edit');
  await ada.page.reload();
  await main(ada).getByText('Your unsaved changes were restored').waitFor();
  await main(ada).getByText('3 unsaved changes').waitFor();
  await ada.page.getByRole('link', { name: 'Back to Agents' }).click();
  await dialog(ada).getByText('Leave without saving?').waitFor();
  await accessible(ada.page, 'leaving');
  await button(ada.page, 'Leave and keep').click();
  await agentCard(ada, 'Quill').getByText('Unsaved changes').waitFor();
  await agentCard(ada, 'Quill').getByRole('link').click();
  await editLink(ada).click();
  await button(ada.page, 'Save').click();
  await ada.page.getByText('Saved as version 2').first().waitFor();
  const saved = await api(ada, 'GET', `agents/${(await byName('quill')).id}`);
  assert.deepEqual(
    saved.tools.map((t) => [t.type, t.unavailable_because]),
    [
      ['file_search', null],
      ['function', 'client_only'],
      ['delegate', null],
    ],
  );
  assert.deepEqual(saved.agency.responsibilities, ['Reads the brief', 'Asks what is missing']);
});

test('concurrent edits are shown side by side and resolved field by field', async () => {
  const { id } = await byName('quill');
  const role = async (role) => {
    const me = await api(bo, 'GET', 'snapshot');
    await api(ada, 'PATCH', `members/${me.me.id}`, { role });
  };
  await role('admin'); // only editors and admins can change it
  for (const p of [ada, bo]) {
    await p.page.goto(`${AGENTS}/${id}/edit`);
    await field(p, 'Instructions').waitFor();
  }
  await section(bo, 'Description and tags').click();
  await field(bo, 'Instructions').fill('You are Quill.\n\n## What you are for\nLong texts, by Bo.\n');
  await field(bo, 'Description').fill('Texts for everyone');
  await field(ada, 'Instructions').fill('You are Quill.\n\n## What you are for\nShort texts, by Ada.\n');
  await section(ada, 'Answer length and variation').click();
  await ada.page.getByLabel('Temperature (0 to 2)').fill('0.4');
  await button(bo.page, 'Save').click();
  await bo.page.getByText('Saved as version 3').first().waitFor();
  await main(ada).getByText('Version 3 was saved in the meantime').waitFor();
  await button(ada.page, 'Save').click();
  await main(ada).getByRole('heading', { name: 'Bo Chen saved version 3 in the meantime' }).waitFor();
  await inspect(ada, 'agents-conflict');
  assert.equal(await button(ada.page, 'Save choices').isDisabled(), true);
  await ada.page.getByRole('group', { name: 'Instructions' }).getByRole('radio', { name: 'Yours' }).check();
  await button(ada.page, 'Save choices').click();
  await ada.page.getByText('Saved as version 4').first().waitFor();
  const now = await api(ada, 'GET', `agents/${id}`);
  assert.deepEqual(
    [now.version, now.temperature, now.description, /by Ada/.test(now.instructions)],
    [4, 0.4, 'Texts for everyone', true],
  );
  await bo.page.getByText('Short texts, by Ada').first().waitFor({ state: 'attached' });
  await role('member');
});

test('the history shows changes by version, and rolls back', async () => {
  await tab(ada, 'History').click();
  await main(ada).getByText('From version 3 to 4').waitFor();
  await main(ada).getByText('Short texts, by Ada.').waitFor();
  await inspect(ada, 'agents-history');
  await ada.page.getByRole('checkbox', { name: /^Version 2/ }).check();
  await main(ada).getByText('From version 2 to 4').waitFor();
  await button(ada.page, 'Roll back to version 2').click();
  await dialog(ada).getByText('becomes version 5').waitFor();
  await accessible(ada.page, 'rolling back');
  await button(ada.page, 'Roll back').click();
  await ada.page.getByText('Rolled back to version 2').first().waitFor();
  await ada.page.getByRole('checkbox', { name: /^Version 5/ }).waitFor();
  const now = await api(ada, 'GET', `agents/${(await byName('quill')).id}`);
  assert.deepEqual([now.version, now.temperature, /Short texts\.\n/.test(now.instructions)], [5, 0.5, true]);
});

test('people without access lose the agent immediately', async () => {
  await bo.page.goto('/northwind/c/general');
  const theirs = side(bo).getByRole('button', { name: 'Quill' });
  await theirs.waitFor();
  await tab(ada, 'Overview').click();
  await editLink(ada).click();
  await section(ada, 'Who may ask it').click();
  await ada.page.getByRole('radio', { name: 'Only these people and roles' }).check();
  await ada.page.getByLabel('Allowed: add', { exact: true }).selectOption({ label: 'All admins' });
  await inspect(ada, 'agents-access');
  await button(ada.page, 'Save').click();
  await ada.page.getByText('Saved as version 6').first().waitFor();
  await theirs.waitFor({ state: 'detached' });
  await bo.page.goto(`${AGENTS}/${(await byName('quill')).id}`);
  await main(bo).getByText('Agent not found').waitFor();
  await bo.page.goto(AGENTS);
  await agentCard(bo, 'Vibe').waitFor();
  assert.equal(await agentCard(bo, 'Quill').count(), 0);
  await ada.page.goto(AGENTS);
  await agentCard(ada, 'Quill').getByText('Restricted').waitFor();
  await agentCard(ada, 'Quill').getByText('Based on Desk').waitFor();
  await agentCard(ada, 'Desk').getByText('Base only').waitFor();
});

test('files are listed with their source, edited, created, and deleted', async () => {
  const { id } = await byName('quill');
  await ada.page.goto(`${AGENTS}/${id}/files`);
  await main(ada).getByRole('heading', { name: 'What Quill is told' }).waitFor();
  assert.equal(await main(ada).getByText('SOUL.md').count(), 0);
  await main(ada)
    .getByRole('button', { name: /^MEMORY\.md/ })
    .click();
  await field(ada, 'MEMORY.md').fill('# Memory\n\n- Ada likes short texts.\n');
  await button(ada.page, 'Save file').click();
  await ada.page.getByText('MEMORY.md saved').first().waitFor();
  await inspect(ada, 'agents-files');
  await button(ada.page, 'Add today’s log').click();
  const log = main(ada).getByRole('button', { name: /^memory\/\d{4}-\d\d-\d\d\.md/ });
  await log.waitFor();
  await button(ada.page, 'Save file').click();
  await ada.page
    .getByText(/^memory\/.* saved$/)
    .first()
    .waitFor();
  await main(ada)
    .getByRole('button', { name: /^Delete memory/ })
    .click();
  await log.waitFor({ state: 'detached' });
  await api(ada, 'PUT', `agents/${id}/files/SOUL.md`, { content: 'You are Quill, from a file.\n' });
  await (await sourceText(ada, 'Instructions')).getByText('You are Quill, from a file.').waitFor();
  assert.equal((await api(ada, 'GET', `agents/${id}`)).version, 7);
});

test('an exported agent is imported as another agent', async () => {
  const download = ada.page.waitForEvent('download');
  await button(ada.page, 'Export all').click();
  const zip = await readFile(await (await download).path());
  assert.equal(zip.subarray(0, 4).toString('latin1'), 'PK\x03\x04');
  const file = (name) => {
    const at = zip.indexOf(`quill/${name}`);
    assert.ok(at > 0, name);
    const size = zip.readUInt32LE(at - 30 + 18); // size field of the header before the name
    return {
      name,
      mimeType: 'text/plain',
      buffer: zip.subarray(at + 6 + name.length, at + 6 + name.length + size),
    };
  };
  const files = ['SOUL.md', 'MEMORY.md', 'agent.json'].map(file);
  assert.match(files[0].buffer.toString(), /^You are Quill, from a file\./);
  await ada.page.goto(AGENTS);
  await button(ada.page, 'Import').click();
  await inspect(ada, 'agents-import');
  await dialog(ada).getByLabel('Choose files').setInputFiles(files);
  await dialog(ada).getByText('@quill is taken').waitFor();
  await dialog(ada).getByRole('textbox', { name: 'Name', exact: true }).fill('quill-two');
  await dialog(ada).getByText('Another agent looks like this').waitFor();
  await dialog(ada).getByRole('textbox', { name: 'Display name' }).fill('Quill Two');
  await accessible(ada.page, 'importing');
  await button(ada.page, 'Import agent').click();
  await button(ada.page, 'Open agent').click();
  await tab(ada, 'What it is told').click();
  await (await sourceText(ada, 'Instructions')).getByText('You are Quill, from a file.').waitFor();
  const { id } = await byName('quill-two');
  const now = await api(ada, 'GET', `agents/${id}`);
  assert.deepEqual(now.agency.responsibilities, ['Reads the brief', 'Asks what is missing']);
  assert.match((await api(ada, 'GET', `agents/${id}/files/MEMORY.md`)).content, /Ada likes short texts/);
});

test('an agent is duplicated, made default, deactivated, archived, unarchived, and deleted', async () => {
  await more(ada, 'Duplicate');
  await main(ada).getByRole('heading', { level: 1 }).waitFor();
  await ada.page.waitForURL(/agent_\w+\/edit$/);
  await main(ada).getByText('People write @quill-two-copy').waitFor();
  await more(ada, 'Make default');
  await ada.page.getByText('is now the default').first().waitFor();
  await ada.page.goto(AGENTS);
  await agentCard(ada, 'Vibe').getByText('Default').waitFor({ state: 'detached' });
  await agentCard(ada, 'Vibe').getByRole('link').click();
  await more(ada, 'Make default');
  await ada.page.getByText('Vibe is now the default').first().waitFor();
  await ada.page.getByRole('button', { name: /^Actions for/ }).click();
  assert.equal(await ada.page.getByRole('menuitem', { name: 'Archive…' }).count(), 0);
  await inspect(ada, 'agents-menu');
  await ada.page.keyboard.press('Escape');
  await ada.page.goto(`${AGENTS}/${(await byName('quill-two-copy')).id}`);
  await more(ada, 'Deactivate');
  await main(ada).getByText('Inactive.').waitFor();
  await button(ada.page, 'Activate').click();
  await main(ada).getByText('Inactive.').waitFor({ state: 'detached' });
  await more(ada, 'Archive…');
  await dialog(ada).getByText('The workspace’s default agent takes over').waitFor();
  await accessible(ada.page, 'archiving');
  await button(ada.page, 'Archive agent').click();
  await main(ada).getByText('Archived.').waitFor();
  await inspect(ada, 'agents-archived');
  await button(ada.page, 'Unarchive').click();
  await main(ada).getByText('Archived.').waitFor({ state: 'detached' });
  await more(ada, 'Delete permanently…');
  assert.equal(await button(ada.page, 'Delete permanently').isDisabled(), true);
  await field(ada, 'Type quill-two-copy to confirm').fill('quill-two-copy');
  await inspect(ada, 'agents-delete');
  await button(ada.page, 'Delete permanently').click();
  await ada.page.waitForURL(new RegExp(`${AGENTS}$`));
  await agentCard(ada, 'Vibe').waitFor();
  assert.equal(await byName('quill-two-copy'), undefined);
});

test('admins change the workspace’s rules; members without the right have no buttons', async () => {
  await ada.page.goto('/northwind/settings/told');
  await field(ada, 'Told to every agent first').fill('Be kind to everyone.');
  await ada.page.getByLabel('All kinds').uncheck();
  await ada.page.getByLabel('web_fetch').uncheck();
  await inspect(ada, 'agents-rules');
  await ada.page.getByLabel('Members can create and edit agents').uncheck();
  await ada.page.getByLabel('API clients can use the model without an agent').uncheck();
  await button(ada.page, 'Save').click();
  await ada.page.getByText('Saved. The next reply').first().waitFor();
  const policy = await api(ada, 'GET', `workspaces/${workspace.id}/policy`);
  assert.equal(policy.members_write_agents, false);
  assert.equal(policy.bare_model, false);
  // "Try it" runs drafts, which are not agents yet.
  await api(ada, 'PATCH', `workspaces/${workspace.id}/policy`, { bare_model: true });
  assert.equal(policy.allowed_tools.includes('web_fetch'), false);
  await bo.page.goto(AGENTS);
  await agentCard(bo, 'Vibe').waitFor();
  await button(bo.page, 'Import').waitFor({ state: 'detached' });
  assert.equal(await bo.page.getByRole('link', { name: 'New agent' }).count(), 0);
  await agentCard(bo, 'Vibe').getByRole('link').click();
  await tab(bo, 'What it is told').waitFor();
  assert.equal(await editLink(bo).count(), 0);
  await accessible(bo.page, 'an agent that one may only read');
});

test('Try it runs the unsaved draft, and Stop keeps the text so far', async () => {
  const { id } = await byName('coder');
  await ada.page.goto(`${AGENTS}/${id}/edit`);
  await field(ada, 'Instructions').fill('You are Coder. Answer in verse.');
  await tab(ada, 'Try it').click();
  const write = box(ada.page, 'Message Coder');
  await main(ada).getByText('With your unsaved changes').waitFor();
  await write.fill('What does the build say?');
  await ada.page.keyboard.press('Enter');
  await main(ada).getByText('Monday: two quiet days before the fair.').waitFor();
  await main(ada)
    .getByText(/scripted-1 · .*800 in/)
    .waitFor();
  const asked = model.asked.at(-1);
  assert.match(asked.messages[0].content, /^Be kind to everyone\.\n\nYou are Coder\. Answer in verse\./);
  await write.fill('hold a long answer');
  await ada.page.keyboard.press('Enter');
  await button(ada.page, 'Stop').waitFor();
  await main(ada).getByText('Conflict log, 30 days').waitFor();
  await button(ada.page, 'Stop').click();
  await main(ada)
    .getByText(/^Stopped/)
    .waitFor();
  await inspect(ada, 'agents-try');
  await button(ada.page, 'Clear').click();
  await main(ada).getByText('The conversation is private and not stored').waitFor();
  assert.equal((await byName('coder')).version, 1);
});

test('a page that failed to load can be retried; offline edits are kept', async () => {
  let broken = true;
  const failing = (r) =>
    broken
      ? r.fulfill({ status: 503, json: { error: { code: 'x', message: 'The database is away.' } } })
      : r.continue();
  await ada.page.route(/\/v1\/agents\/agent_\w+(\/versions|\/files)?(\?.*)?$/, failing);
  await ada.page.goto(AGENTS);
  await agentCard(ada, 'Coder').getByRole('link').click();
  await main(ada).getByText('Couldn’t load this agent').waitFor();
  await accessible(ada.page, 'an agent that failed to load');
  broken = false;
  await button(ada.page, 'Try again').click();
  await editLink(ada).click();
  await field(ada, 'Instructions').waitFor();
  for (const [name, words] of [
    ['History', 'Couldn’t load the history'],
    ['What it is told', 'Couldn’t load the files'],
  ]) {
    broken = true;
    await tab(ada, name).click();
    await main(ada).getByText(words).waitFor();
    await accessible(ada.page, words);
  }
  broken = false;
  await ada.page.unroute(/\/v1\/agents\/agent_\w+(\/versions|\/files)?(\?.*)?$/);
  await tab(ada, 'Overview').click();
  await editLink(ada).click();
  await section(ada, 'Description and tags').click();
  await ada.context.setOffline(true);
  await ada.page.getByText('You are offline').waitFor();
  await field(ada, 'Description').fill('Written in a tunnel');
  await button(ada.page, 'Save').click();
  await main(ada).getByRole('alert').getByText('The server cannot be reached.').waitFor();
  await ada.page.mouse.move(0, 0);
  await accessible(ada.page, 'the editor, offline');
  await ada.context.setOffline(false);
  await ada.page.getByText('You are offline').waitFor({ state: 'detached' });
  await button(ada.page, 'Save').click();
  await ada.page.getByText('Saved as version 2').first().waitFor();
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});

test('the workspace’s AGENTS.md applies to agents without their own', async () => {
  const { id } = await byName('coder');
  await ada.page.goto('/northwind/settings/told');
  await field(ada, 'Working rules').fill('Answer in one line.');
  await button(ada.page, 'Save').click();
  await ada.page
    .getByText(/^Saved\. The next reply/)
    .first()
    .waitFor();
  const file = await api(ada, 'GET', `agents/${id}/files/AGENTS.md`);
  assert.deepEqual([file.source, file.content], ['workspace', 'Answer in one line.']);
  await ada.page.reload();
  await field(ada, 'Working rules').waitFor();
  assert.equal(await field(ada, 'Working rules').inputValue(), 'Answer in one line.');
  await inspect(ada, 'agents-shared-files');
  await bo.page.goto('/northwind/settings/told');
  await field(bo, 'Working rules').waitFor();
  assert.equal(await field(bo, 'Working rules').isEditable(), false);
  assert.equal(await button(bo.page, 'Save').count(), 0);
});

test('text typed in two windows is in both, also after a reload', async () => {
  const { id } = await byName('coder');
  const second = { ...ada, page: await ada.context.newPage() };
  for (const p of [ada, second]) {
    await p.page.goto(`${AGENTS}/${id}/edit`);
    await field(p, 'Instructions').waitFor();
  }
  for (const p of [ada, second]) await section(p, 'Description and tags').click();
  await field(ada, 'Instructions').fill('Typed in the first window.');
  await field(second, 'Description').fill('Typed in the second window');
  for (const p of [ada, second]) await main(p).getByText('2 unsaved changes').waitFor();
  for (const p of [ada, second]) {
    await p.page.reload();
    await main(p).getByText('Your unsaved changes were restored.').waitFor();
    await section(p, 'Description and tags').click();
    assert.deepEqual(
      [await field(p, 'Instructions').inputValue(), await field(p, 'Description').inputValue()],
      ['Typed in the first window.', 'Typed in the second window'],
    );
  }
  await button(second.page, 'Save').click();
  await main(ada).getByText('2 unsaved changes').waitFor({ state: 'detached' });
  assert.equal((await byName('coder')).description, 'Typed in the second window');
  await second.page.close();
});

test('a file that someone else saved is shown beside the draft, before and after a reload', async () => {
  const { id } = await byName('coder');
  const path = `agents/${id}/files/MEMORY.md`;
  await ada.page.goto(`${AGENTS}/${id}/files`);
  await main(ada)
    .getByRole('button', { name: /^MEMORY\.md/ })
    .click();
  await field(ada, 'MEMORY.md').fill('Ada likes pears.');
  await main(ada).getByText('Not saved yet').waitFor();
  await ada.page.reload();
  await api(ada, 'PUT', path, { content: 'Ada likes plums.' });
  await main(ada)
    .getByRole('button', { name: /^MEMORY\.md/ })
    .click();
  await button(ada.page, 'Save file').click();
  await main(ada)
    .getByRole('heading', { name: /saved version \d in the meantime/ })
    .waitFor();
  await inspect(ada, 'agents-file-conflict');
  assert.equal((await api(ada, 'GET', path)).content, 'Ada likes plums.');
  const both = main(ada).getByRole('group', { name: 'MEMORY.md' });
  await both.getByRole('radio', { name: 'Yours', exact: true }).check();
  await button(ada.page, 'Save choices').click();
  await ada.page.getByText('MEMORY.md saved').first().waitFor();
  assert.equal((await api(ada, 'GET', path)).content, 'Ada likes pears.');
});

test('the workspace’s rules and files are not saved over those of another admin', async () => {
  await ada.page.goto('/northwind/settings/told');
  await field(ada, 'Told to every agent first').fill('Be kind, by Ada.');
  await field(ada, 'Working rules').fill('Answer in two lines.');
  const root = `workspaces/${workspace.id}`;
  await api(ada, 'PATCH', `${root}/policy`, { required_text: 'Be brief.' });
  await api(ada, 'PUT', `${root}/files/AGENTS.md`, { content: 'Answer in three lines.' });
  await button(ada.page, 'Save').click();
  await main(ada).getByText('Be brief.').waitFor();
  await main(ada).getByText('Answer in three lines.').waitFor();
  await inspect(ada, 'settings-conflicts');
  const clash = (name) => main(ada).getByRole('group', { name, exact: true });
  await clash('Told to every agent first').getByRole('radio', { name: 'Yours', exact: true }).check();
  await button(ada.page, 'Save choices').first().click();
  await field(ada, 'Told to every agent first').waitFor();
  assert.equal((await api(ada, 'GET', `${root}/policy`)).required_text, 'Be kind, by Ada.');
  await ada.page.getByRole('button', { name: /^Use version/ }).click();
  assert.equal(await field(ada, 'Working rules').inputValue(), 'Answer in three lines.');
});

test('the editor lets an agent use servers, and leaves other tools as they are', async () => {
  const remote = await new ToolServer().start();
  after(() => remote.close());
  remote.tools = [
    fn('find', 'Finds', { readOnlyHint: true }),
    fn('create', 'Creates'),
    fn('wipe', 'Deletes', { destructiveHint: true }),
  ];
  const form = { kind: 'mcp', name: 'tracker', title: 'Tracker', config: { url: remote.url, auth: 'none' } };
  const { id } = await api(ada, 'POST', 'tools', form);
  const { functions } = await api(ada, 'POST', `tools/${id}/refresh`);
  for (const { name, definition_hash, effect, risk } of functions)
    await api(ada, 'PUT', `tools/${id}/functions/${name}`, { definition_hash, effect, risk });
  for (let n = 1; n <= 8; n++)
    await api(ada, 'POST', 'tools', {
      ...form,
      name: `other-${n}`,
      title: `Other ${n}`,
      config: { url: remote.url.replace('/mcp', `/${n}`), auth: 'none' },
    });
  const odd = [
    { type: 'function', name: 'b', parameters: { type: 'object', properties: { z: {}, a: {} } } },
    { type: 'file_search', vector_store_ids: [], max_num_results: 3 },
    { type: 'mcp', server_label: 'old', server_url: 'https://old.example' },
    { type: 'function', name: 'a' },
  ];
  const agent = await api(ada, 'POST', 'agents', { name: 'odd', instructions: 'You are odd.', tools: odd });
  const tools = async () =>
    (await api(ada, 'GET', `agents/${agent.id}`)).tools.map((tool) => {
      delete tool.available;
      delete tool.unavailable_because;
      return JSON.stringify(tool);
    });
  const before = await tools();
  await ada.page.goto(`${AGENTS}/${agent.id}/edit`);
  const group = main(ada).getByRole('group', { name: 'Can do' });
  const check = (name) => group.getByRole('checkbox', { name });
  await check(/^Tracker/).check();
  await group.getByRole('checkbox', { name: /^Other 1 No function accepted yet/ }).waitFor();
  await button(group, 'Show 3 more').click();
  await button(group, 'Functions of Tracker').click();
  await check(/^Deletes/).uncheck();
  await inspect(ada, 'agents-can-do');
  await button(ada.page, 'Save').click();
  await ada.page.getByText('Saved as version 2').first().waitFor();
  const saved = await tools();
  assert.deepEqual(saved.slice(0, -1), before);
  const allowed = { registry_id: id, server_label: 'tracker', allowed_tools: ['create', 'find'] };
  assert.deepEqual(JSON.parse(saved.at(-1)), { type: 'mcp', ...allowed });
  await check(/^Search this workspace/).uncheck();
  await check(/^Search this workspace/).check();
  await check(/^Tracker/).uncheck();
  await button(ada.page, 'Save').click();
  await ada.page.getByText('Saved as version 3').first().waitFor();
  assert.deepEqual(await tools(), before);

  // Opened as a whole, the editor has at most 28 fields.
  await ada.page.goto(`${AGENTS}/${(await byName('coder')).id}/edit`);
  await field(ada, 'Instructions').waitFor();
  const first = await countFields(ada);
  const folded = main(ada).locator('h2 > button[aria-expanded="false"]');
  await folded.evaluateAll((all) => all.forEach((one) => one.click()));
  await folded.first().waitFor({ state: 'detached' });
  const opened = await countFields(ada);
  console.log(`fields of the editor: ${first} at first, ${opened} opened`);
  assert.ok(first <= 10 && opened <= 28, `${first} and ${opened} fields`);
  await inspect(ada, 'agents-edit-opened');
});
