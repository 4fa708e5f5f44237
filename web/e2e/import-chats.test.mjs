// The import of a person's own chats with other products, in a dialog of Settings › Profile.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { button, message } from './lib/browser.mjs';
import { dialog, inspect, main } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';
import { zipped } from './lib/zip.mjs';

const { ada, bo } = await startTeam();
const { page } = bo;
const part = dialog(bo);
const said = (parent, role, text) => ({
  parent,
  message: {
    author: { role },
    create_time: 1_700_000_000,
    recipient: 'all',
    content: { content_type: 'text', parts: [text] },
    metadata: { model_slug: 'gpt-4o' },
  },
});
const chats = [
  {
    conversation_id: 'c1',
    title: 'Trip to the lake',
    create_time: 1_700_000_000,
    current_node: 'b',
    mapping: { a: said('', 'user', 'How deep is the lake?'), b: said('a', 'assistant', 'Ninety meters') },
  },
];
const choose = (name, buffer) =>
  part.getByLabel('Choose a file').setInputFiles({ name, mimeType: 'application/zip', buffer });

test('a member imports chats, which only they see', async () => {
  await page.goto('/northwind/settings/profile');
  await button(main(bo), 'Import chats').click();
  await part.getByText('Drop the export here').waitFor();
  await inspect(bo, 'import-chats');
  await choose('notes.json', Buffer.from('{"a": 1}'));
  await part.getByRole('alert').getByText('This has no chats.').waitFor();
  await choose('export.zip', zipped({ 'conversations.json': chats }));
  await button(part, 'Import 2 messages').click();
  await part.getByText('Done. 2 imported, 0 left out.').waitFor();
  await button(part, 'Close').last().click();
  const { channels } = await api(bo, 'GET', 'snapshot');
  const { id } = channels.find((c) => c.kind === 'direct' && c.agent_id);
  await page.goto(`/northwind/c/${id}`);
  await page.getByText('Trip to the lake').first().click();
  await message(page, 'Ninety meters').getByText('gpt-4o · ChatGPT').waitFor();
  assert.deepEqual((await api(ada, 'GET', 'imports')).data, []);
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
