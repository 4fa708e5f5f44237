import { expect, test } from 'vitest';
import type { CollectionFile, CollectionUrl } from '../api/collections';
import { isWaiting, noteText, readText, rowsOf, unreadText } from './rows';

const file = (changes: object): CollectionFile =>
  ({
    id: 'file_1',
    path: 'a.pdf',
    filename: 'a.pdf',
    status: 'completed',
    document: { state: 'ready', reason: null, parts: 12 },
    replacement: null,
    ...changes,
  }) as unknown as CollectionFile;
const url = (changes: object): CollectionUrl =>
  ({ path: 'page', refreshed_at: null, failure: null, ...changes }) as unknown as CollectionUrl;
const day = () => 'May 3';

test.each([
  [{}, '12 pages'],
  [{ status: 'in_progress' }, 'Waiting'],
  [{ filename: 'a.md', document: { state: 'ready', reason: null, parts: 1 } }, '1 part'],
  [{ document: { state: 'partial', reason: 'scanned', parts: 3 } }, 'Some of 3 pages'],
  [{ status: 'failed', document: { state: 'failed', reason: 'scanned', parts: 0 } }, 'Scan'],
  [{ status: 'failed', document: { state: 'none', reason: null, parts: 0 } }, 'No text'],
])('what was read of a file is told in few words %#', (changes, text) => {
  expect(readText(file(changes))).toBe(text);
});

test('a page and its file are one row, and a page without a file is a row of its own', () => {
  const rows = rowsOf([file({ path: 'page' }), file({ path: 'a' })], [url({}), url({ path: 'b' })]);
  expect(rows.map((row) => [row.path, row.file !== null, row.url !== null])).toEqual([
    ['a', true, false],
    ['b', false, true],
    ['page', true, true],
  ]);
});

test('a row says that its file is older than it should be', () => {
  const row = (changes: object, of: CollectionUrl | null = null) => ({
    path: 'a',
    file: file(changes),
    url: of,
  });
  expect(noteText(row({}), day)).toBe('');
  expect(noteText(row({ replacement: { status: 'in_progress' } }), day)).toBe('New version: waiting');
  const failed = { replacement: { status: 'failed', last_error: { message: 'The file is damaged.' } } };
  expect(noteText(row(failed), day)).toBe('The new version could not be read: The file is damaged.');
  expect(noteText(row({}, url({ refreshed_at: 1, failure: '404' })), day)).toBe(
    'Not refreshed since May 3: 404',
  );
  expect(noteText({ path: 'a', file: null, url: url({ failure: '404' }) }, day)).toBe('Not read: 404');
});

test('files that could not be read are counted', () => {
  expect(unreadText([file({}), file({})])).toBe('');
  expect(unreadText([file({}), file({ status: 'failed' })])).toBe('1 of 2 files could not be read');
});

test.each([
  [{}, false],
  [{ status: 'in_progress' }, true],
  [{ status: 'failed' }, false],
  [{ replacement: { status: 'in_progress' } }, true],
  [{ replacement: { status: 'failed' } }, false],
])('files that are being read are looked at again %#', (changes, waits) => {
  expect(isWaiting(file(changes))).toBe(waits);
});
