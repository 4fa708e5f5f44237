// @vitest-environment happy-dom
import { fireEvent, screen as page, waitFor, within } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';
import { ApiError } from '../api/problem';
import { FilesApi, type FileText } from '../api/files';
import { Screen } from '../test/screen';
import FilePanel from './FilePanel.svelte';
import { piecesOf, rangesOf } from './pieces';

const screen = new Screen();
const TEXTS = ['Cover', 'Trains are preferred over planes.', 'Planes need a reason. No planes on Mondays.'];

/** A PDF with three pages on the server, or another state of its text. */
function serve(change: Partial<FileText> = {}) {
  return vi.spyOn(FilesApi.prototype, 'text').mockImplementation((_id, { part, q } = {}) => {
    const counts = TEXTS.map((text, n) => ({ part: n + 1, count: q ? rangesOf(text, q).length : 0 }));
    const matches = counts.filter((of) => of.count);
    const n = part ?? matches[0]?.part ?? 1;
    const missing = { error: { code: 'part_not_found', message: 'no such part' } };
    if (!TEXTS[n - 1] || (part && change.part === null))
      return Promise.reject(new ApiError(404, missing, 'missing'));
    const file = { id: 'file_1', name: 'Handbook.pdf', content_type: 'application/pdf', message_id: 'msg_1' };
    const text = { part: n, label: `page ${n}`, heading: null, text: TEXTS[n - 1]!, matches };
    const state = { state: 'ready', reason: null, parts: TEXTS.length, unread_parts: [] };
    return Promise.resolve({ file, ...state, ...text, ...change } as unknown as FileText);
  });
}
async function open(part: number | null, quote: { from: number; to: number } | null = null) {
  history.replaceState(null, '', `/n/c/g?panel=file:file_1${part ? `:${part}` : ''}`);
  screen.show(FilePanel, { id: 'file_1', part, quote });
  return within(await page.findByRole('region', { name: 'File: Handbook.pdf' }));
}
const marks = () => [...document.querySelectorAll('mark')].map((mark) => mark.textContent);

test('a page is shown with its quotation, its place, and the original', async () => {
  serve();
  const it = await open(2, { from: 0, to: 20 });
  expect(await it.findByText('Page 2 of 3')).toBeTruthy();
  expect(marks()).toEqual(['Trains are preferred']);
  expect(it.getByRole('link', { name: 'Open the original' }).getAttribute('href')).toBe(
    '/v1/files/file_1#page=2',
  );
  expect(it.getByRole('link', { name: 'Download' }).getAttribute('href')).toBe('/v1/files/file_1?download=1');
  await fireEvent.click(it.getByRole('button', { name: 'Next page' }));
  expect(screen.app.router.panel).toEqual({ kind: 'file', id: 'file_1', part: 3, range: '' });
  await fireEvent.click(it.getByRole('button', { name: 'Previous page' }));
  expect(screen.app.router.panel).toMatchObject({ part: 1 });
});
test('the first and the last page have no page beyond them', async () => {
  serve();
  const disabled = (name: string) => page.getByRole<HTMLButtonElement>('button', { name }).disabled;
  await open(null);
  expect([disabled('Previous page'), disabled('Next page')]).toEqual([true, false]);
});
test('words are found in all pages and marked, and Enter goes on to the next page', async () => {
  serve();
  const it = await open(1);
  const field = it.getByRole('textbox', { name: 'Find in this file' });
  await fireEvent.input(field, { target: { value: 'PLANES' } });
  await fireEvent.submit(field.closest('form')!);
  expect(await it.findByText('3 matches on 2 pages')).toBeTruthy();
  await waitFor(() => expect(marks()).toEqual(['planes']));
  expect(screen.app.router.panel).toMatchObject({ part: 2 });
  await fireEvent.submit(field.closest('form')!);
  await waitFor(() => expect(screen.app.router.panel).toMatchObject({ part: 3 }));
  await fireEvent.input(field, { target: { value: 'zebra' } });
  await fireEvent.submit(field.closest('form')!);
  expect(await it.findByText('No matches')).toBeTruthy();
});
test('a scan is named as one, also at a page', async () => {
  serve({ state: 'failed', reason: 'scanned', part: null, text: null, label: null });
  const it = await open(2);
  expect(await it.findByText(/ocrmypdf/)).toBeTruthy();
});
test('pages that could not be read are named', async () => {
  serve({ state: 'partial', reason: 'scanned', unread_parts: [3, 7] });
  const it = await open(1);
  expect(await it.findByText('Pages 3, 7 could not be read')).toBeTruthy();
});
test('a replaced file leads to the new version', async () => {
  const year = new Date().getFullYear();
  serve({ replaced_at: `${year}-05-03T12:00:00.000Z`, replaced_by: 'file_2' });
  const it = await open(1);
  expect(await it.findByText(/^Replaced on May 3\./)).toBeTruthy();
  const link = it.getByRole('link', { name: 'Show the new version' });
  expect(link.getAttribute('href')).toMatch(/\?panel=file:file_2:1$/);
});
test('a deleted file is named as deleted', async () => {
  const missing = new ApiError(404, { error: { code: 'file_not_found' } }, 'missing');
  vi.spyOn(FilesApi.prototype, 'text').mockRejectedValue(missing);
  screen.show(FilePanel, { id: 'file_1', part: 2, quote: null });
  expect(await page.findByText('This file was deleted.')).toBeTruthy();
});
test('pieces have the whole text, and ranges are those of its letters', () => {
  expect(rangesOf('a.b A.B axb', 'a.b')).toEqual([
    { from: 0, to: 3 },
    { from: 4, to: 7 },
  ]);
  expect(rangesOf('text', '')).toEqual([]);
  const text = '😀 one two';
  const pieces = piecesOf(text, rangesOf(text, 'ONE'));
  expect(pieces.map((piece) => piece.text).join('')).toBe(text);
  expect(pieces.filter((piece) => piece.hit)).toEqual([{ text: 'one', hit: true }]);
});
