// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { message } from '../test/make';
import { Screen } from '../test/screen';
import MessageButtons from './MessageButtons.svelte';

const screen = new Screen();
const link = { id: 'docs', text: 'Docs', url: 'https://docs.example/', confirm: 'Leave the chat?' };

test('a button with an address is a link, which asks first if the bot wants that', async () => {
  const author = { type: 'bot', id: 'bot_1', name: 'Deploy', avatar_url: null } as const;
  const shown = message({ author, metadata: { buttons: [link, { id: 'yes', text: 'Yes' }] } });
  screen.show(MessageButtons, { message: shown });
  const docs = page.getByRole('link', { name: 'Docs' });
  expect(docs.getAttribute('href')).toBe('https://docs.example/');
  expect(page.getByRole('button', { name: 'Yes' })).toBeTruthy();
  await fireEvent.click(docs);
  expect(await page.findByText('Leave the chat?')).toBeTruthy();
});
