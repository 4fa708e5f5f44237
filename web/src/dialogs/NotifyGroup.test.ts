// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';
import { Screen } from '../test/screen';
import NotifyGroup from './NotifyGroup.svelte';

const screen = new Screen();

test.each([
  ['Notify', true],
  ['Send without', false],
])('the dialog names the number of people, and "%s" answers', async (name, notify) => {
  const answer = vi.fn<(notify: boolean | null) => void>();
  screen.show(NotifyGroup, { count: 240, answer, onclose: () => undefined });
  page.getByRole('heading', { name: 'Notify 240 people?' });
  await fireEvent.click(page.getByRole('button', { name }));
  expect(answer.mock.calls).toEqual([[notify]]);
});
