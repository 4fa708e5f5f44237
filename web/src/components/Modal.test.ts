// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';
import { message } from '../test/make';
import { Screen } from '../test/screen';
import MemoryForm from '../memory/MemoryForm.svelte';

const screen = new Screen();
const outside = async () => {
  const dialog = page.getByRole('dialog');
  await fireEvent.pointerDown(dialog);
  await fireEvent.click(dialog);
};

test('a click beside a dialog closes it, unless text was typed in it', async () => {
  const onclose = vi.fn();
  screen.show(MemoryForm, { subject: { message: message() }, onclose });
  await outside();
  expect(onclose).toHaveBeenCalledOnce();
  await fireEvent.input(page.getByRole('textbox', { name: 'Text' }), { target: { value: 'Typed' } });
  await outside();
  expect(onclose).toHaveBeenCalledOnce();
});
