// Who wrote what an agent is told, and who can change it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { button } from './lib/browser.mjs';
import { editLink, inspect, main } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam();
const AGENTS = '/northwind/settings/agents';

test('an agent’s page names the author of its texts until an admin accepts them', async () => {
  const form = { name: 'tide', instructions: 'Know the tide.', tools: [{ type: 'web_fetch' }] };
  const { id } = await api(bo, 'POST', 'agents', form);
  await bo.page.goto(`${AGENTS}/${id}`);
  await main(bo)
    .getByText('Its instructions and tools are by you. Others are asked before it sends anything out.')
    .waitFor();
  assert.equal(await button(bo.page, 'Accept').count(), 0);
  await ada.page.goto(`${AGENTS}/${id}`);
  const note = main(ada).getByText('Its instructions and tools are by Bo Chen.');
  await note.waitFor();
  await inspect(ada, 'agent-authors');
  await button(ada.page, 'Accept').click();
  await note.waitFor({ state: 'detached' });
  const { version, authors } = await api(ada, 'GET', `agents/${id}`);
  assert.equal(version, 2);
  assert.equal(authors.instructions, authors.tools);
});

test('people who are not editors have no Edit', async () => {
  const { data } = await api(ada, 'GET', 'agents?name=vibe');
  for (const p of [ada, bo]) await p.page.goto(`${AGENTS}/${data[0].id}`);
  await editLink(ada).waitFor();
  await main(bo).getByRole('heading', { name: 'Vibe', level: 2 }).waitFor();
  assert.equal(await editLink(bo).count(), 0);
  await main(bo).getByText('Admins', { exact: true }).waitFor();
  await api(ada, 'PATCH', `agents/${data[0].id}`, { editors: ['role:member'] });
  await editLink(bo).waitFor();
});

test('an agent that everyone can change is limited to admins with one press', async () => {
  const { id } = await api(ada, 'POST', 'agents', {
    name: 'open',
    instructions: 'You are open.',
    editors: [],
  });
  await bo.page.goto(`${AGENTS}/${id}`);
  await editLink(bo).waitFor();
  assert.equal(await button(bo.page, 'Limit to admins').count(), 0);
  await ada.page.goto(`${AGENTS}/${id}`);
  await main(ada).getByText('Everyone can change open.').waitFor();
  await inspect(ada, 'agent-editors-note');
  await button(ada.page, 'Limit to admins').click();
  await main(ada).getByText('Everyone can change open.').waitFor({ state: 'detached' });
  assert.deepEqual((await api(ada, 'GET', `agents/${id}`)).editors, ['role:admin']);
  await editLink(bo).waitFor({ state: 'detached' });
});

test('the editor sets who may change an agent', async () => {
  const { id } = await api(ada, 'POST', 'agents', { name: 'shared', instructions: 'You are shared.' });
  await ada.page.goto(`${AGENTS}/${id}/edit`);
  await main(ada)
    .getByRole('button', { name: /^Who may change it/ })
    .click();
  const { members } = await api(ada, 'GET', 'snapshot');
  const member = members.find((m) => m.name === 'Bo Chen');
  await ada.page.getByLabel('Editors: add', { exact: true }).selectOption({ value: member.user_id });
  await button(ada.page, 'Save').click();
  await ada.page.getByText('Saved as version 2').first().waitFor();
  await bo.page.goto(`${AGENTS}/${id}`);
  await editLink(bo).waitFor();
});
