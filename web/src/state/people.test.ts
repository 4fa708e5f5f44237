import { expect, test } from 'vitest';
import type { ServerEvent } from '../api/events';
import type { Message } from '../api/types';
import { member, snapshot } from '../test/make';
import { People } from './people.svelte';

test('a bot is named as it is called now', () => {
  const people = new People();
  expect(people.botName('bot_1')).toBe('A bot');
  people.load({ ...snapshot(), bots: [{ id: 'bot_1', handle: 'deploy', name: 'Deploy', commands: [] }] });
  expect(people.botName('bot_1')).toBe('Deploy');
  const renamed = { bot: { id: 'bot_1', handle: 'deploy', name: 'Release', commands: [] } };
  people.apply({ type: 'bot.updated', data: renamed } as unknown as ServerEvent);
  expect(people.botName('bot_1')).toBe('Release');
});

test('a suspended member keeps the name, and is nobody to mention', () => {
  const people = new People();
  const ada = member('user_1', 'Ada', 'ada');
  people.putMember(ada);
  people.seen({ user_id: 'user_1', status: 'online' });
  people.putMember({ ...ada, status: 'suspended' });
  expect(people.members.size).toBe(0);
  expect(people.handles.has('ada')).toBe(false);
  expect(people.online.size).toBe(0);
  expect(people.userName('user_1')).toBe('Ada (deactivated)');
  expect(people.nameOf({ type: 'human', id: 'user_1', name: 'Ada' })).toBe('Ada (deactivated)');
  people.putMember(ada);
  expect(people.userName('user_1')).toBe('Ada');
  expect(people.members.size).toBe(1);
});

test('the author of an imported message who is no member has not joined', () => {
  const people = new People();
  people.putMember(member('user_1', 'Ada', 'ada'));
  const by = (id: string, imported_from?: 'slack') =>
    ({ author: { type: 'human', id, name: 'X' }, metadata: { imported_from } }) as unknown as Message;
  expect(people.isAbsent(by('user_2', 'slack'))).toBe(true);
  expect(people.isAbsent(by('user_1', 'slack'))).toBe(false);
  expect(people.isAbsent(by('user_2'))).toBe(false);
});
