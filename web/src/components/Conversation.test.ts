// @vitest-environment happy-dom
import { fireEvent, screen as page, within } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';
import type { Message } from '../api/types';
import { mine } from '../test/backend';
import { AT, fromAgent, message, task } from '../test/make';
import { Screen } from '../test/screen';
import Conversation from './Conversation.svelte';

const screen = new Screen();
const articles = () => page.findAllByRole('article');

/** Shows the thread with these messages. */
async function show(messages: Message[]) {
  const { ws, backend } = screen.scene;
  backend.messages = messages;
  screen.show(Conversation, { state: ws.thread('thread_1'), unsent: ws.outbox.items, target: null });
  await page.findByRole('region', { name: 'Messages' });
}

test('messages are listed in order, with their authors', async () => {
  await show([message({ content: 'Friday or Monday?' }), fromAgent({ content: 'Monday is safer.' })]);
  const [first, second] = await articles();
  expect(within(first!).getByText('Bo')).toBeTruthy();
  expect(within(first!).getByText('Friday or Monday?')).toBeTruthy();
  expect(within(second!).getByText('Vibe')).toBeTruthy();
  expect(within(second!).getByText('Monday is safer.')).toBeTruthy();
});
test('a guest has a badge beside the name', async () => {
  const { members } = screen.scene.ws.people;
  members.set('user_bo', { ...members.get('user_bo')!, role: 'guest' });
  await show([message({ content: 'Hello' }), mine({ content: 'Welcome' })]);
  const [guest, own] = await articles();
  expect(within(guest!).getByText('GUEST')).toBeTruthy();
  expect(within(own!).queryByText('GUEST')).toBeNull();
});
test('Markdown is rendered, and HTML is shown as text', async () => {
  await show([message({ content: '**now** <script>alert(1)</script>' })]);
  const [row] = await articles();
  expect(within(row!).getByText('now').tagName).toBe('STRONG');
  expect(row!.querySelector('script')).toBeNull();
  expect(row!.textContent).toContain('<script>alert(1)</script>');
});
test('a deleted message leaves a line without its text', async () => {
  await show([message({ content: 'secret', deleted_at: AT })]);
  expect(await page.findByText('This message was deleted.')).toBeTruthy();
  expect(page.queryByText('secret')).toBeNull();
});
test('a new message appears without a reload', async () => {
  await show([message({ content: 'first' })]);
  await articles();
  screen.scene.created({ content: 'second' });
  expect(await page.findByText('second')).toBeTruthy();
});
test('a reply in progress has a row with its agent, until its message arrives', async () => {
  const question = mine({ content: 'What now?' });
  await show([question]);
  await articles();
  screen.scene.event('task.status_changed', {
    task: task({ status: 'running', trigger_message_id: question.id }),
  });
  expect(await page.findByRole('article', { name: /Vibe/ })).toBeTruthy();
  screen.scene.created(fromAgent({ content: 'Rest.', metadata: { task_id: 'task_1' } }));
  expect(await page.findByText('Rest.')).toBeTruthy();
  await vi.waitFor(() => expect(page.getAllByRole('article')).toHaveLength(2));
});
test('a reaction shows its count, and a click removes mine', async () => {
  const reactions = [{ emoji: '🎉', user_ids: ['user_bo', 'user_me'], agent_ids: [] }];
  await show([message({ content: 'Done', reactions })]);
  const button = await page.findByRole('button', { name: /🎉.*2|2.*🎉/ });
  expect(button.getAttribute('aria-pressed')).toBe('true');
  await fireEvent.click(button);
  await vi.waitFor(() => expect(screen.scene.backend.calls.at(-1)).toMatch(/^DELETE .*reactions/));
});
test('the text of an edit stays when its message is deleted', async () => {
  const own = mine({ content: 'first' });
  await show([own]);
  await articles();
  screen.ws.thread('thread_1').editing = own.id;
  const field = await page.findByRole<HTMLTextAreaElement>('textbox', { name: 'Edit message' });
  await fireEvent.input(field, { target: { value: 'first, and a long second part' } });
  screen.scene.event('message.deleted', {
    message: { ...own, content: '', content_plain: '', deleted_at: AT },
  });
  expect(await page.findByText(/^This message was deleted. Copy your text/)).toBeTruthy();
  expect(field.isConnected && field.value).toBe('first, and a long second part');
  expect(page.queryByRole('button', { name: 'Save' })).toBeNull();
  await fireEvent.click(page.getByRole('button', { name: 'Close' }));
  expect(await page.findByText('This message was deleted.')).toBeTruthy();
  expect(screen.ws.drafts.has(`e:${own.id}`)).toBe(false);
});
test('an edit shows the text that another window saved in the meantime', async () => {
  const own = mine({ content: 'first' });
  await show([own]);
  await articles();
  screen.ws.thread('thread_1').editing = own.id;
  const field = await page.findByRole<HTMLTextAreaElement>('textbox', { name: 'Edit message' });
  await fireEvent.input(field, { target: { value: 'mine' } });
  screen.scene.event('message.updated', { message: { ...own, content: 'saved elsewhere' } });
  expect(await page.findByText('saved elsewhere')).toBeTruthy();
  expect(field.value).toBe('mine');
});
