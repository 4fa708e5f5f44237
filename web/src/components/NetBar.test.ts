// @vitest-environment happy-dom
import { screen as page } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { Connection } from '../state/connection.svelte';
import { Screen } from '../test/screen';
import NetBar from './NetBar.svelte';

const screen = new Screen();

/** The bar after the connection was down for 11 s. */
async function bar(browserOnline: boolean): Promise<string> {
  let now = 0;
  const connection = new Connection(
    () => now,
    () => browserOnline,
  );
  connection.socket('down');
  now = 11_000;
  connection.refresh();
  connection.dispose();
  Object.defineProperty(screen.ws, 'connection', { value: connection });
  screen.show(NetBar, {});
  return (await page.findByText(/Your messages are saved/)).textContent?.replaceAll(/\s+/g, ' ') ?? '';
}

test('a lost connection of an offline browser is the browser’s', async () => {
  expect(await bar(false)).toBe(
    'You are offline. Your messages are saved and will be sent when the connection is back.',
  );
});
test('a lost connection of an online browser is the server’s', async () => {
  screen.ws.workspace = { ...screen.ws.workspace, name: 'Harbour' };
  expect(await bar(true)).toBe(
    'Cannot reach Harbour’s server. Your messages are saved and will be sent when the connection is back.',
  );
});
test.each([
  ['admin', ' Its proxy must forward WebSockets: docs/operations.md'],
  ['member', ''],
] as const)('a server whose sockets are blocked is online, with advice for an %s', async (role, advice) => {
  const { ws } = screen;
  ws.people.me = { ...ws.people.me, role };
  ws.connection.block(true);
  screen.show(NetBar, {});
  const shown = await page.findByText(/^Live updates do not get through/);
  expect(shown.textContent.replaceAll(/\s+/g, ' ').trim()).toBe(
    `Live updates do not get through to this server. New messages appear every few seconds.${advice}`,
  );
  expect(ws.connection).toMatchObject({
    net: 'blocked',
    live: true,
    reachesServer: true,
    unreachable: false,
  });
});
test('a quiet or restored copy says that its agents do not act by themselves', async () => {
  screen.ws.agentsState = 'quiet';
  screen.show(NetBar, {});
  await page.findByText('Quiet copy: agents and notifications are off.');
  screen.ws.agentsState = 'asleep';
  await page.findByText(/^Restored copy: schedules and interrupted tasks wait/);
  screen.ws.agentsState = 'running';
  await expect.poll(() => page.queryByText(/copy:/)).toBeNull();
});
