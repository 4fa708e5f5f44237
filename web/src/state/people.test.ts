import { expect, test } from 'vitest';
import { member } from '../test/make';
import { People } from './people.svelte';

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
