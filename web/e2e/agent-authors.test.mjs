// Who wrote what an agent is told, and who can change it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { button } from './lib/browser.mjs';
import { inspect, main } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam();
const AGENTS = '/northwind/settings/agents';
const edit = (p) =>
  p.page.getByRole('navigation', { name: 'Agent', exact: true }).getByRole('link', { name: 'Edit' });

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
  await edit(ada).waitFor();
  await main(bo).getByRole('heading', { name: 'Instructions' }).waitFor();
  assert.equal(await edit(bo).count(), 0);
  await api(ada, 'PATCH', `agents/${data[0].id}`, { editors: ['role:member'] });
  await edit(bo).waitFor();
});
