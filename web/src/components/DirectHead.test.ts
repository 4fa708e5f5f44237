// @vitest-environment happy-dom
import { screen as page } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { responderOf } from '../state/composer-context';
import { myChannel } from '../test/make';
import { Screen } from '../test/screen';
import DirectHead from './DirectHead.svelte';

const screen = new Screen();
const show = (bot_id: string) => {
  const channel = myChannel({ kind: 'direct', name: null, bot_id, member_ids: [screen.ws.myId] });
  const responder = responderOf({ agent_id: null, agent_version: null, auto_reply: true }, screen.ws);
  screen.show(DirectHead, { channel, responder, conversation: null, may: true });
};

test('a direct channel of a bot has its name and its picture', () => {
  const bot = { id: 'bot_1', handle: 'deploy', name: 'Deploy', commands: [], avatar_url: '/v1/files/file_1' };
  screen.ws.people.bots.set(bot.id, bot);
  show(bot.id);
  page.getByRole('heading', { name: 'Deploy' });
  page.getByText('Bot');
  expect(document.querySelector('img')?.getAttribute('src')).toBe('/v1/files/file_1');
});
test('a bot without a picture is shown by the beginning of its name', () => {
  screen.ws.people.bots.set('bot_1', { id: 'bot_1', handle: 'deploy', name: 'Deploy', commands: [] });
  show('bot_1');
  page.getByText('D');
  expect(document.querySelector('img')).toBeNull();
});
