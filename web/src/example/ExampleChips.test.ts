// @vitest-environment happy-dom
import { screen as page } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { Screen } from '../test/screen';
import ExampleChips from './ExampleChips.svelte';

const screen = new Screen();

test('the chip opens the catch-up, and only admins can remove the example', async () => {
  const place = screen.ws.thread('thread_1');
  screen.show(ExampleChips, { place });
  const sum = await page.findByRole('button', { name: 'Sum up this thread' });
  expect(sum.getAttribute('aria-expanded')).toBe('false');
  sum.click();
  expect(place.reading.catchingUp).toBe(true);
  const remove = page.queryByRole('button', { name: 'Remove the example' });
  expect(remove !== null).toBe(screen.ws.people.isAdmin);
});
