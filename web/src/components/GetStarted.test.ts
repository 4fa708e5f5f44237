// @vitest-environment happy-dom
import { screen as page, within } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { Screen } from '../test/screen';
import GetStarted from './GetStarted.svelte';

const screen = new Screen();

test('the steps lead to their pages and are counted', async () => {
  screen.ws.checklist = [
    { name: 'connect_model', done: false },
    { name: 'start_thread', done: true },
    { name: 'check_server', done: false },
  ];
  screen.show(GetStarted, {});
  await page.findByText('1 of 3 done');
  const links = page.getAllByRole('link').map((link) => [link.textContent.trim(), link.getAttribute('href')]);
  expect(links.map(([text]) => text?.replaceAll(/\s+/g, ' '))).toEqual([
    'Connect a model',
    'Start a thread done',
    'Check the server',
  ]);
  expect(links.map(([, href]) => href)).toEqual([
    '/northwind/settings/model',
    '/northwind/c/general',
    '/northwind/settings/server',
  ]);
});

test('hidden steps are gone, and those that are all done are not shown', async () => {
  screen.ws.checklist = [{ name: 'start_thread', done: false }];
  screen.show(GetStarted, {});
  const region = within(page.getByRole('region', { name: 'Get started' }));
  region.getByRole('button', { name: 'Dismiss Get started' }).click();
  await expect.poll(() => screen.ws.checklist).toBeNull();
  expect(screen.scene.backend.calls.at(-1)).toBe('PATCH /v1/auth/me');
  expect(screen.scene.backend.bodies.at(-1)).toEqual({ checklist: false });
  expect(page.queryByText(/done$/)).toBeNull();
  screen.ws.checklist = [{ name: 'start_thread', done: true }];
  expect(page.queryByText(/done$/)).toBeNull();
});
