import { expect, test, vi } from 'vitest';
import type { ServerEvent } from '../api/events';
import type { Attachment } from '../api/types';
import type { WorkspaceState } from '../state/workspace.svelte';
import { message, task } from '../test/make';
import { FileReads } from './file-reads.svelte';

const file = (name: string, content_type = 'application/pdf') =>
  ({ id: `file_${name}`, name, content_type }) as Attachment;
const running = task({ status: 'running', requested_by: 'user_me' });

/** Reads of a user's files, whose states come from a server that `answer` lets respond. */
function opened(author = 'user_me') {
  const asked: string[] = [];
  let answer = (_state: string) => undefined as void;
  const metadata = (id: string) => {
    asked.push(id);
    return new Promise((done) => (answer = (state) => done({ document: { state } })));
  };
  const ws = { myId: 'user_me', api: { part: () => ({ metadata }) } } as unknown as WorkspaceState;
  const reads = new FileReads(ws);
  const event = (type: ServerEvent['type'], data: unknown) => reads.onEvent({ type, data } as ServerEvent);
  const attachments = [file('notes.txt', 'text/plain'), file('manual.pdf'), file('red.png', 'image/png')];
  const posted = message({
    id: 'msg_1',
    author: { type: 'human', id: author, name: 'Mia', avatar_url: null },
    attachments,
  });
  event('message.created', { message: posted });
  return { reads, event, asked, posted, answer: (state: string) => answer(state) };
}

test('the chip names the file that the reply waits for, until it was read', async () => {
  const { reads, event, asked, answer } = opened();
  expect(reads.chip(running)).toBeNull();
  event('task.status_changed', { task: running });
  event('task.status_changed', { task: running });
  expect(asked).toEqual(['file_manual.pdf']);
  answer('waiting');
  await vi.waitFor(() => expect(reads.chip(running)).toBe('Reading manual.pdf'));
  expect(reads.chip({ ...running, reply_message_id: 'msg_2' })).toBeNull();
  expect(reads.chip({ ...running, trigger_message_id: 'msg_9' })).toBeNull();
  event('file.updated', { file: { id: 'file_manual.pdf' } });
  expect(reads.chip(running)).toBeNull();
});
test('a late response does not undo the end of the reading', async () => {
  const { reads, event, answer } = opened();
  event('task.status_changed', { task: running });
  event('file.updated', { file: { id: 'file_manual.pdf' } });
  answer('waiting');
  await Promise.resolve();
  await Promise.resolve();
  expect(reads.chip(running)).toBeNull();
});
test('files that were read, of others, and of deleted messages are not named', async () => {
  const read = opened();
  read.event('task.status_changed', { task: running });
  read.answer('ready');
  await Promise.resolve();
  expect(read.reads.chip(running)).toBeNull();
  const others = opened('user_bo');
  others.event('task.status_changed', { task: running });
  expect(others.asked).toEqual([]);
  const gone = opened();
  gone.event('task.status_changed', { task: running });
  gone.answer('waiting');
  await vi.waitFor(() => expect(gone.reads.chip(running)).toBe('Reading manual.pdf'));
  gone.event('message.deleted', { message: { ...gone.posted, deleted_at: 'now' } });
  expect(gone.reads.chip(running)).toBeNull();
});
