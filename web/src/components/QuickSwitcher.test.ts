// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';
import type { SearchHit } from '../api/search';
import { message } from '../test/make';
import { Screen } from '../test/screen';
import QuickSwitcher from './QuickSwitcher.svelte';

const screen = new Screen();
const options = () =>
  page.queryAllByRole('option').map(
    (option) =>
      [...option.querySelectorAll('span.truncate')]
        .map((span) => span.textContent)
        .join(' ')
        .trim() || option.textContent.trim(),
  );

async function type(text: string): Promise<void> {
  screen.app.ui.switcher = true;
  screen.show(QuickSwitcher, {});
  await fireEvent.input(await page.findByRole('combobox'), { target: { value: text } });
}

test('> lists commands and the pages of settings, and asks the server nothing', async () => {
  await type('>');
  await vi.waitFor(() => expect(options()).toContain('New thread Command'));
  for (const entry of ['Inbox Page', 'Memory Settings', 'Theme: dark Command', 'Sign out Command'])
    expect(options(), entry).toContain(entry);
  expect(options().some((option) => option.startsWith('Search messages'))).toBe(false);
  expect(screen.scene.backend.calls).not.toContain('GET /v1/search');
});

test('a command runs, and pages that a person cannot open are not listed', async () => {
  await type('>keyb');
  await vi.waitFor(() => expect(options()).toEqual(['Keyboard shortcuts Command']));
  await fireEvent.keyDown(page.getByRole('combobox'), { key: 'Enter' });
  expect(screen.app.ui.dialog).toEqual({ name: 'keys' });
  expect(screen.app.ui.switcher).toBe(false);
});

test('pages of admins are not listed for others', async () => {
  screen.ws.people.me = { ...screen.ws.people.me, role: 'member' };
  await type('>');
  await vi.waitFor(() => expect(options()).toContain('Profile Settings'));
  for (const entry of ['Audit log Settings', 'Invite people Command'])
    expect(options(), entry).not.toContain(entry);
});

test('deep dives of the server are found by their titles', async () => {
  const { backend } = screen.scene;
  const dive = { fork_id: 'fork_old', fork_title: 'The old harbor', fork_status: 'resolved' } as const;
  const root = message({ channel_id: 'chan_1', thread_id: 'thread_old', content: 'Where do we land?' });
  const hit = { ...root, thread_title: null } as SearchHit;
  backend.hits = [hit, { ...hit, ...dive }];
  await type('harbor');
  await vi.waitFor(() =>
    expect(options().slice(0, 2)).toEqual(['Where do we land? #general', 'The old harbor Resolved dive']),
  );
});

test('without a result, the messages can be searched', async () => {
  await type('zz');
  await vi.waitFor(() => expect(options()).toEqual(['No results. Search messages for “zz”']));
  await fireEvent.input(page.getByRole('combobox'), { target: { value: '>zz' } });
  await vi.waitFor(() => expect(options()).toEqual(['No results']));
});
