// @vitest-environment happy-dom
import { screen as page } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import type { HookRequest, HooksApi, NewHook } from '../api/hooks';
import { message } from '../test/make';
import { Screen } from '../test/screen';
import NewWebhook from './NewWebhook.svelte';

const screen = new Screen();

test.each([
  ['Alertmanager', 'Alertmanager'],
  [null, 'Robot'],
])('the first message of the product %s is received from %s', async (product, name) => {
  const author = { type: 'bot', id: 'bot_1', name: 'Robot', avatar_url: null } as const;
  const first = message({ author });
  const requests = [{ message_id: first.id, product } as HookRequest];
  const api = { requests: () => Promise.resolve(requests) } as unknown as HooksApi;
  const made = { id: 'hook_1', bot_id: 'bot_1', channel_id: first.channel_id, url: 'https://x' } as NewHook;
  screen.show(NewWebhook, { api, made, name: 'Robot', onmade: () => undefined, onclose: () => undefined });
  expect(page.getByRole('status').textContent).toBe('Waiting for the first message…');
  screen.scene.event('message.created', { message: first });
  expect(await page.findByText(new RegExp(`^Received from ${name}, `))).toBeTruthy();
});
