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
