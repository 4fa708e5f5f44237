import { expect, test } from 'vitest';
import { ApiError } from '../api/problem';
import type { Role } from '../api/types';
import { member } from '../test/make';
import { Loaded } from './loaded.svelte';
import { findMembers, SCOPES } from './roles';

test('a member is found by name, handle or address, every word counting', () => {
  const all = [
    member('u1', 'Ada Lindholm', 'ada'),
    { ...member('u2', 'Bo Chen', 'bo'), role: 'admin' as Role },
  ];
  const found = (text: string, role: Role | '' = '') => findMembers(all, text, role).map((m) => m.user_id);
  expect(found('lind ADA')).toEqual(['u1']);
  expect(found('@bo')).toEqual(['u2']);
  expect(found('', 'admin')).toEqual(['u2']);
  expect(found('ada', 'admin')).toEqual([]);
});
test('a key is offered no more than its maker’s role may do', () => {
  const of = (role: Role) => SCOPES.filter((s) => s.roles.includes(role)).map((s) => s.scope);
  expect(of('viewer')).toEqual(['chat:read', 'agents:read']);
  expect(of('member')).not.toContain('workspace:admin');
  expect(of('admin')).toHaveLength(8);
});

test('what is shown stays when it cannot be read again, and the reason is told', async () => {
  let fail = false;
  const loaded = new Loaded(() =>
    fail
      ? Promise.reject(new ApiError(503, { error: { message: 'the database is away' } }, ''))
      : Promise.resolve(7),
  );
  await loaded.load();
  fail = true;
  await loaded.load();
  expect(loaded).toMatchObject({ value: 7, problem: 'The database is away', busy: false });
  fail = false;
  await loaded.load();
  expect(loaded.problem).toBe('');
});
