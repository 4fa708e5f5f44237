// @vitest-environment happy-dom
import { fireEvent, screen as page, waitFor, within } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';
import { SearchApi, type FileHit } from '../api/search';
import { AT } from '../test/make';
import { Screen } from '../test/screen';
import FileHits from './FileHits.svelte';
import SearchPage from './SearchPage.svelte';

const screen = new Screen();
const hit = (part: number, change: Partial<FileHit> = {}) =>
  ({
    file: { id: 'file_1', name: 'Handbook.pdf', content_type: 'application/pdf' },
    part,
    label: `page ${part}`,
    from: 0,
    to: 20,
    highlight: '<mark>Trains</mark> are preferred',
    found_by: 'words',
    created_at: AT,
    ...change,
  }) as FileHit;
function serve(...pages: FileHit[][]) {
  const files = vi.spyOn(SearchApi.prototype, 'files');
  files.mockReset();
  pages.forEach((data, n) => {
    const next_cursor = n + 1 < pages.length ? `cursor ${n + 1}` : null;
    files.mockResolvedValueOnce({ object: 'list', data, has_more: next_cursor !== null, next_cursor });
  });
  return files;
}

test('passages open in the panel, and name how they were found', async () => {
  history.replaceState(null, '', '/n/search?q=trains&tab=files');
  screen.app.router.go('/n/search?q=trains&tab=files', true);
  const files = serve([hit(12)], [hit(13, { found_by: 'meaning' })]);
  screen.show(FileHits, { q: 'trains' });
  const list = within(await page.findByRole('region', { name: 'Files, best first' }));
  const link = list.getByRole('link', { name: /Handbook\.pdf, page 12/ });
  expect(link.getAttribute('href')).toBe('/n/search?q=trains&tab=files&panel=file:file_1:12:0-20');
  expect(list.queryByText('Found by meaning')).toBeNull();
  await fireEvent.click(list.getByRole('button', { name: 'Show more passages' }));
  expect(await list.findByText('Found by meaning')).toBeTruthy();
  expect(list.getAllByRole('link')).toHaveLength(2);
  expect(files.mock.calls.map(([query]) => query.cursor)).toEqual([undefined, 'cursor 1']);
});
test('a search without hits is named', async () => {
  serve([]);
  screen.show(FileHits, { q: 'zebra' });
  expect(await page.findByText('No results for “zebra”')).toBeTruthy();
});
test('a search that fails can be repeated', async () => {
  const files = serve();
  files.mockRejectedValueOnce(new Error('Lost'));
  screen.show(FileHits, { q: 'trains' });
  const again = await page.findByRole('button', { name: 'Try again' });
  files.mockResolvedValueOnce({ object: 'list', data: [hit(1)], has_more: false, next_cursor: null });
  await fireEvent.click(again);
  await waitFor(() => expect(page.getAllByRole('link')).toHaveLength(1));
});
test('filters of messages are left out of a search for files', async () => {
  const files = serve([hit(1)]);
  const at = (q: string) => screen.app.router.go(`/n/search?q=${encodeURIComponent(q)}&tab=files`, true);
  at('trains from:ada');
  screen.show(SearchPage, {});
  expect(await page.findByRole('region', { name: 'Files, best first' })).toBeTruthy();
  expect(page.getByRole('button', { name: 'Files' }).getAttribute('aria-pressed')).toBe('true');
  expect(files.mock.calls[0]![0].q).toBe('trains');
  at('from:ada');
  expect(await page.findByText(/^Filters apply only to messages/)).toBeTruthy();
});
