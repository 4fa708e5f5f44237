// @vitest-environment happy-dom
import { screen as page } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';
import { message } from '../test/make';
import { Screen } from '../test/screen';
import MessagePage from './MessagePage.svelte';
import MessageQuote from './MessageQuote.svelte';

const screen = new Screen();
/** The server answers requests for single messages with these; it refuses the others. */
const stored = (...messages: ReturnType<typeof message>[]) => {
  vi.spyOn(screen.ws.api, 'message').mockImplementation((id) => {
    const found = messages.find((m) => m.id === id);
    return found ? Promise.resolve(found) : Promise.reject(new Error('not found'));
  });
};

test('a linked message is quoted with its author, place, and text', async () => {
  stored(message({ id: 'msg_a', content: 'Ship on Monday' }));
  screen.show(MessageQuote, { id: 'msg_a' });
  const quote = await page.findByRole('figure', { name: 'Quoted message' });
  expect(quote.textContent).toContain('Ship on Monday');
  expect(quote.textContent).toMatch(/Bo\s+in #general/);
  expect(quote.querySelector('a')?.getAttribute('href')).toBe('/northwind/c/general/t/thread_1#m-msg_a');
});

test('a message that cannot be read, or was deleted, shows nothing', async () => {
  stored(message({ id: 'msg_gone', content: '', deleted_at: '2026-01-05T09:00:00.000Z' }));
  screen.show(MessageQuote, { id: 'msg_secret' });
  screen.show(MessageQuote, { id: 'msg_gone' });
  await vi.waitFor(() => expect(screen.ws.api.message).toHaveBeenCalledTimes(2));
  await Promise.resolve();
  expect(page.queryByRole('figure')).toBeNull();
});

test('a text with many links sends few requests', async () => {
  stored();
  for (let n = 0; n < 50; n++) screen.show(MessageQuote, { id: `msg_${n}` });
  await vi.waitFor(() => expect(screen.ws.api.message).toHaveBeenCalled());
  await new Promise((done) => setTimeout(done, 50));
  expect(vi.mocked(screen.ws.api.message).mock.calls.length).toBeLessThanOrEqual(30);
});

test('the address of a message leads to its conversation, also in a deep dive', async () => {
  stored(message({ id: 'msg_a' }), message({ id: 'msg_d', fork_id: 'fork_1' }));
  screen.app.router.go('/northwind/m/msg_a');
  const shown = screen.show(MessagePage, {});
  await vi.waitFor(() =>
    expect(location.pathname + location.hash).toBe('/northwind/c/general/t/thread_1#m-msg_a'),
  );
  shown.unmount();
  screen.app.router.go('/northwind/m/msg_d');
  screen.show(MessagePage, {});
  await vi.waitFor(() => expect(location.search + location.hash).toBe('?panel=dive:fork_1#d-msg_d'));
});

test('an address without a message says so', async () => {
  stored();
  screen.app.router.go('/northwind/m/nothing');
  screen.show(MessagePage, {});
  await page.findByRole('heading', { name: 'Message not found' });
});
