// @vitest-environment happy-dom
import { fireEvent, screen as page, within } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { ListedNode } from '../api/admin-types';
import type { SettingsPage } from '../settings/pages';
import Settings from '../settings/Settings.svelte';
import { node } from '../test/make-nodes';
import { Screen } from '../test/screen';
import { REFRESH_MS } from './node-list.svelte';

const screen = new Screen();
const requests = () => screen.scene.backend.calls.filter((call) => call === 'GET /v1/nodes').length;
const tab = (name: string) => page.queryByRole('link', { name });
const row = async (name: string) => (await page.findByRole('rowheader', { name })).closest('tr')!;
const cells = (of: HTMLElement) =>
  within(of)
    .getAllByRole('cell')
    .map((cell) => cell.textContent.trim());

/** Opens Settings while the socket is connected. */
async function show(
  nodes: ListedNode[] | null,
  { at = 'nodes', role = 'admin' }: { at?: SettingsPage; role?: 'admin' | 'member' } = {},
): Promise<void> {
  const { scene, ws } = screen;
  scene.backend.nodes = nodes;
  ws.people.me = { ...ws.people.me, role };
  scene.live();
  screen.show(Settings, { page: at });
  await page.findByRole('link', { name: 'Profile' });
}
let visibility: DocumentVisibilityState;
beforeEach(() => {
  visibility = 'visible';
  vi.spyOn(document, 'visibilityState', 'get').mockImplementation(() => visibility);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

test('the tab appears when the server has returned the nodes', async () => {
  await show([node()], { at: 'workspace' });
  expect((await page.findByRole('link', { name: 'Nodes' })).getAttribute('href')).toBe(
    '/northwind/settings/nodes',
  );
  expect(requests()).toBe(1);
});
test('members have no tab, and their browsers do not request the nodes', async () => {
  await show([node()], { role: 'member' });
  await page.findByText(/Only admins can see this page/);
  expect([tab('Nodes'), page.queryByRole('group', { name: 'Server' }), requests()]).toEqual([null, null, 0]);
});
test('admins of another workspace have no tab', async () => {
  await show(null);
  await page.findByText('Only admins of this server’s first workspace can see this page.');
  expect([tab('Nodes'), tab('Tools')]).toEqual([null, expect.anything()]);
});
test('someone who becomes an admin gets the tab', async () => {
  await show([node()], { at: 'workspace', role: 'member' });
  expect(tab('Nodes')).toBeNull();
  screen.ws.people.me = { ...screen.ws.people.me, role: 'admin' };
  await page.findByRole('link', { name: 'Nodes' });
});
test('one node is one row and a sentence', async () => {
  await show([node({ mode: 'local', bus_delay_ms: null })]);
  await page.findByText('One server uses this database.');
  const web1 = await row('web-1 This node');
  expect(cells(web1).slice(0, 3)).toEqual(['Ready', 'In this process', '0.9.0']);
  expect(cells(web1).slice(4)).toEqual(['1,234', '2', '3', '—none', '—none', '−12 ms', '019ab1c2']);
  expect(page.getByText('019ab1c2').title).toBe('019ab1c2-d3e4-7f00-8000-000000000000');
  expect(page.queryByRole('note')).toBeNull();
});
test('a node with other settings or a wrong clock has a warning', async () => {
  await show([
    node(),
    node({
      id: 'node_2',
      name: 'web-2',
      is_this: false,
      mode: 'nats',
      state: 'draining',
      clock_skew_ms: 2400,
      differing_settings: ['OPENVIBE_EVENT_RETENTION'],
    }),
  ]);
  await page.findByText('2 servers use this database.');
  const web2 = cells(await row('web-2'));
  expect([web2[0], web2[1], web2[9]]).toEqual(['Draining', 'NATS', '+2.4 s']);
  const notes = page.getAllByRole('note').map((note) => note.textContent);
  expect(notes).toEqual([
    expect.stringContaining('OPENVIBE_EVENT_RETENTION differs from web-1'),
    expect.stringContaining('2.4 s ahead'),
  ]);
});
test('a bus that anyone can use has a warning', async () => {
  await show([node({ mode: 'nats', open_nats: '10.0.0.7:4222' })]);
  const note = await page.findByRole('note');
  expect(note.textContent).toContain('Anyone who reaches NATS at 10.0.0.7:4222 can see which workspaces');
});
test('many files in the database have a warning', async () => {
  screen.scene.backend.fileBytesInDatabase = 12 * 1024 ** 3;
  await show([node()]);
  expect((await page.findByRole('note')).textContent).toContain('12 GB of files are in PostgreSQL');
});
test('a lost node has no current figures', async () => {
  await show([node(), node({ id: 'node_2', name: 'web-2', is_this: false, state: 'lost' })]);
  const web2 = cells(await row('web-2'));
  expect(web2[0]).toBe('Lost');
  expect(web2.slice(3, 10)).toEqual(Array(7).fill('—none'));
});
test('the page refreshes every 5 s while it is visible', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  await show([node()]);
  await row('web-1 This node');
  const { backend } = screen.scene;
  backend.nodes = [node({ sockets: 5 })];
  vi.advanceTimersByTime(REFRESH_MS);
  await page.findByText('5');
  const before = requests();
  visibility = 'hidden';
  vi.advanceTimersByTime(10 * REFRESH_MS);
  expect(requests()).toBe(before);
  backend.nodes = [node({ sockets: 6 })];
  visibility = 'visible';
  await fireEvent(document, new Event('visibilitychange'));
  await page.findByText('6');
});
test('a failed load is reported, and repeated on request', async () => {
  screen.scene.backend.lost = /nodes/;
  await show([node()]);
  await page.findByText('Couldn’t load the nodes');
  expect(tab('Nodes')).toBeNull();
  screen.scene.backend.lost = null;
  await fireEvent.click(page.getByRole('button', { name: 'Try again' }));
  await row('web-1 This node');
  expect(tab('Nodes')).not.toBeNull();
});
test('an empty list is explained', async () => {
  await show([]);
  await page.findByText('Each server is listed once it has started.');
});
