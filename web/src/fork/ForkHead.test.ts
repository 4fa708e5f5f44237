// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { fork } from '../test/make';
import { Screen } from '../test/screen';
import ForkHead from './ForkHead.svelte';

const screen = new Screen();
const show = (unnamed: boolean) =>
  screen.show(ForkHead, {
    id: 'fork_1',
    fork: fork(),
    view: 'panel',
    starting: false,
    resolve: false,
    unnamed,
  });

test('a dive that nobody has named offers another name', async () => {
  show(true);
  await fireEvent.click(page.getByRole('button', { name: 'Rename' }));
  expect(page.getByRole('textbox', { name: 'Name of the dive' })).toBeTruthy();
  expect(page.queryByRole('button', { name: 'Rename' })).toBeNull();
});
test('a dive with a name does not', () => {
  show(false);
  expect(page.queryByRole('button', { name: 'Rename' })).toBeNull();
});
