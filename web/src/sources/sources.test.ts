// @vitest-environment happy-dom
import { screen as page, within } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { FilesApi } from '../api/files';
import type { Message } from '../api/types';
import Conversation from '../components/Conversation.svelte';
import { AT, fromAgent, message, myChannel } from '../test/make';
import { Screen } from '../test/screen';
import type { Source } from './cited-messages.svelte';
import { sourceText } from './words';

const screen = new Screen();
const ops = myChannel({ id: 'chan_2', name: 'ops' });
const said = message({ id: 'msg_said', channel_id: 'chan_2', thread_id: 'thread_2' });
const TEXT = sourceText(ops, { author: 'Bo', at: AT });
const source = (x: Partial<Source> = {}): Source => ({
  n: 1,
  message_id: 'msg_said',
  thread_id: 'thread_2',
  fork_id: null,
  channel_id: 'chan_2',
  ...x,
});

/** Callbacks with which a test makes lists come into view. */
let appear: (() => void)[];
beforeEach(() => {
  appear = [];
  vi.stubGlobal(
    'IntersectionObserver',
    class {
      constructor(onchange: (entries: { isIntersecting: boolean }[]) => void) {
        appear.push(() => onchange([{ isIntersecting: true }]));
      }
      observe(): void {}
      disconnect(): void {}
    },
  );
});
afterEach(() => vi.unstubAllGlobals());

/** Shows a reply with this metadata in #general; Bo's message is in #ops. */
async function showReply(metadata: Message['metadata']) {
  const { scene, ws } = screen;
  scene.live();
  ws.channels.put(ops);
  scene.backend.messages = [said, fromAgent({ content: 'It is blue. [1]', metadata })];
  screen.show(Conversation, { state: ws.thread('thread_1'), unsent: ws.outbox.items, target: null });
  await page.findByText('It is blue. [1]');
}
const list = async () => within(await page.findByRole('list', { name: 'Sources' }));
const comeIntoView = async () => {
  await vi.waitFor(() => expect(appear).not.toEqual([]));
  for (const one of appear) one();
};
const requests = () => screen.scene.backend.calls.filter((call) => call.startsWith('GET /v1/messages/'));

test('a source has its number, and links to the message', async () => {
  await showReply({ sources: [source()] });
  await comeIntoView();
  const link = await (await list()).findByRole('link', { name: TEXT });
  expect(link.getAttribute('href')).toBe('/northwind/c/ops/t/thread_2#m-msg_said');
  expect(link.closest('li')!.textContent).toMatch(/^\s*\[1\]/);
});
test('a source in a deep dive opens the dive', async () => {
  await showReply({ sources: [source({ fork_id: 'fork_1' })] });
  const link = await (await list()).findByRole('link', { name: '#ops' });
  expect(link.getAttribute('href')).toBe('/northwind/c/ops/t/thread_2?panel=dive:fork_1#d-msg_said');
});
test('a source out of view is not requested; its link works without the message', async () => {
  await showReply({ sources: [source()] });
  const link = await (await list()).findByRole('link', { name: '#ops' });
  expect(link.getAttribute('href')).toBe('/northwind/c/ops/t/thread_2#m-msg_said');
  expect(requests()).toEqual([]);
});
test('two sources with one message are two entries and one request', async () => {
  await showReply({ sources: [source(), source({ n: 2 })] });
  await comeIntoView();
  expect(await (await list()).findAllByRole('link', { name: TEXT })).toHaveLength(2);
  expect(requests()).toEqual(['GET /v1/messages/msg_said']);
});
test('if the message cannot be loaded, the link stays', async () => {
  await showReply({ sources: [source()] });
  screen.scene.backend.fail = 503;
  await comeIntoView();
  await vi.waitFor(() => expect(requests()).toHaveLength(1));
  expect(await (await list()).findByRole('link', { name: '#ops' })).toBeTruthy();
});
test('a source that is deleted meanwhile is no longer a link', async () => {
  await showReply({ sources: [source()] });
  await comeIntoView();
  await (await list()).findByRole('link', { name: TEXT });
  screen.scene.event('message.deleted', { message: { ...said, deleted_at: AT } });
  expect(await (await list()).findByText('Message not available')).toBeTruthy();
  expect((await list()).queryByRole('link')).toBeNull();
});
test('a message in a channel that the user does not see is not a link', async () => {
  await showReply({ sources: [source({ channel_id: 'chan_9' })] });
  await comeIntoView();
  expect(await (await list()).findByText('Message not available')).toBeTruthy();
  expect(requests()).toEqual([]);
});
test('an answer without any support says so', async () => {
  await showReply({ sources_removed: 2 });
  expect(await page.findByText('No message supports this answer.')).toBeTruthy();
  expect(page.queryByRole('list', { name: 'Sources' })).toBeNull();
});
test('an answer lists the source that is left', async () => {
  await showReply({ sources: [source()], sources_removed: 2 });
  await list();
  expect(page.queryByText('No message supports this answer.')).toBeNull();
});

test('a passage of a file in a collection links to the file', async () => {
  const file = { id: 'file_1', name: 'Handbook.pdf', content_type: 'application/pdf' };
  const metadata = vi.spyOn(FilesApi.prototype, 'metadata').mockResolvedValue(file as never);
  const place = { vector_store_id: 'vs_1', file_id: 'file_1', part: 12, label: 'page 12', from: 3, to: 80 };
  await showReply({ sources: [{ n: 1, fork_id: null, ...place } as unknown as Source] });
  await comeIntoView();
  const link = await (await list()).findByRole('link', { name: 'Handbook.pdf, page 12' });
  expect(link.getAttribute('href')).toMatch(/\?panel=file:file_1:12:3-80$/);
  metadata.mockRestore();
});

test('a passage of a file in a message opens the file', async () => {
  const passage = { file_id: 'file_1', part: 2, label: 'page 2', from: 0, to: 9 };
  await showReply({ sources: [source(passage)] });
  const link = await (await list()).findByRole('link', { name: '#ops' });
  expect(link.getAttribute('href')).toMatch(/\?panel=file:file_1:2:0-9$/);
});
