// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import type { Bot } from '../api/bots';
import { Screen } from '../test/screen';
import IntegrationsPage from './IntegrationsPage.svelte';

const screen = new Screen();
const tabs = () =>
  page.getAllByRole('button').flatMap((tab) => (tab.hasAttribute('aria-pressed') ? [tab.textContent] : []));

test('admins have webhooks, bots, and commands, members no bots, and viewers only commands', async () => {
  const { people } = screen.ws;
  for (const [role, expected] of [
    ['admin', ['Webhooks', 'Bots', 'Commands']],
    ['member', ['Webhooks', 'Commands']],
    ['viewer', ['Commands']],
  ] as const) {
    people.me = { ...people.me, role };
    const { unmount } = screen.show(IntegrationsPage, {});
    expect(tabs()).toEqual(expected);
    unmount();
  }
});
test('the commands of all bots are listed with the name of the bot', async () => {
  const commands = [{ name: 'deploy', usage: '[service]', description: 'Deploys a service' }];
  screen.scene.backend.bots = [{ id: 'bot_1', name: 'Robot', commands } as Bot];
  screen.show(IntegrationsPage, {});
  await fireEvent.click(page.getByRole('button', { name: 'Commands' }));
  const row = await page.findByRole('listitem');
  expect(row.textContent).toMatch(/^\s*\/deploy \[service\]\s+Robot · Deploys a service\s*$/);
});
