// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';
import { fork } from '../test/make';
import { Screen } from '../test/screen';
import ForkTitle from './ForkTitle.svelte';

const screen = new Screen();

test('a name that could not be saved stays in the field', async () => {
  const onclose = vi.fn();
  const { backend } = screen.scene;
  backend.forks.set('fork_1', fork());
  screen.show(ForkTitle, { fork: fork(), onclose });
  const field = page.getByRole<HTMLInputElement>('textbox', { name: 'Name of the dive' });
  await fireEvent.input(field, { target: { value: 'Why Monday' } });
  backend.lost = /^PATCH/;
  await fireEvent.keyDown(field, { key: 'Enter' });
  await vi.waitFor(() => expect(screen.app.ui.toast?.text).toBe('The server cannot be reached.'));
  expect(onclose).not.toHaveBeenCalled();
  expect(field.value).toBe('Why Monday');
  backend.lost = null;
  await fireEvent.keyDown(field, { key: 'Enter' });
  await vi.waitFor(() => expect(onclose).toHaveBeenCalledOnce());
  expect(backend.bodies.at(-1)).toEqual({ title: 'Why Monday' });
});
