// @vitest-environment happy-dom
import { screen as page } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import TopRows from '../inbox/TopRows.svelte';
import { Screen } from '../test/screen';

const screen = new Screen();
const inDays = (n: number) => new Date(Date.now() + n * 86_400_000).toISOString().slice(0, 10);

test('the inbox says from which day a second factor will be required, and leads to the settings', async () => {
  const { backend } = screen.scene;
  backend.signIn = { ...backend.signIn, second_factor: 'required', from: inDays(5) };
  screen.show(TopRows, { items: new Map() });
  const notice = await page.findByRole('link', { name: /^Northwind will require a second factor from / });
  expect(notice.getAttribute('href')).toBe('/northwind/settings/sign-in');
});
