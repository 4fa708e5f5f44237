// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import type { PromptSource } from '../lib/sources';
import { Screen } from '../test/screen';
import InspectorSources from './InspectorSources.svelte';

const screen = new Screen();
const source = (x: Partial<PromptSource>): PromptSource => ({
  name: 'instructions',
  owner: { type: 'agent', id: 'agent_1', name: 'Vibe' },
  state: 'sent',
  because: null,
  tokens: 12,
  text: 'You are Vibe.',
  author: null,
  can_edit: false,
  by_api: true,
  ...x,
});

test('what was sent is listed with its owner and size, and the text is shown on request', async () => {
  screen.show(InspectorSources, {
    sources: [source({}), source({ name: 'notes', state: 'cut', because: 'no_room' })],
  });
  const rows = page.getAllByRole('listitem').map((row) => row.textContent.replace(/\s+/g, ' ').trim());
  expect(rows[0]).toContain('Instructions Vibe');
  expect(rows[1]).toContain('MEMORY.md Vibe · Cut: the model’s context was full');
  expect(page.queryByText('You are Vibe.')).toBeNull();
  const details = document.querySelector('details')!;
  details.open = true;
  await fireEvent(details, new Event('toggle'));
  expect(await page.findByText('You are Vibe.')).toBeTruthy();
});

test('what is empty or off unfolds with the reason', async () => {
  const off = source({ name: 'memories', state: 'off', because: 'off_thread', tokens: 0, text: '' });
  const hidden = source({ name: 'about', state: 'hidden', because: 'personal', tokens: 0, text: null });
  screen.show(InspectorSources, { sources: [source({}), off, hidden] });
  await fireEvent.click(page.getByRole('button', { name: '2 more are empty or off' }));
  expect(page.getByText(/Off in this thread/)).toBeTruthy();
  expect(page.getByText(/Hidden: personal/)).toBeTruthy();
});
