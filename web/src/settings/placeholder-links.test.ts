import { expect, test } from 'vitest';
import type { NewInvite } from '../api/types';
import { AT, member } from '../test/make';
import { batches, linksTable } from './placeholder-links';

const invite = (member_id: string, token: string): NewInvite => ({
  id: `invite_${token}`,
  email: null,
  role: 'member',
  member_id,
  max_uses: 1,
  uses: 0,
  created_by: 'user_me',
  created_at: AT,
  expires_at: null,
  mail: 'off',
  token,
  url: `https://chat.example.org/invite/${token}`,
  is_local_only: false,
});

test('people are invited in parts', () => {
  expect(batches([1, 2, 3, 4, 5], 2)).toEqual([[1, 2], [3, 4], [5]]);
  expect(batches([], 2)).toEqual([]);
});
test('the table has a link for each person, and no formulas', () => {
  const people = [
    { ...member('user_1', 'Lind, Una', 'una'), email: 'una@example.com' },
    { ...member('user_2', '=Bo', 'bo'), email: '' },
  ];
  expect(linksTable(people, [invite('user_2', 'b'), invite('user_1', 'a')]).split('\r\n')).toEqual([
    'Name,Address,Link',
    '"Lind, Una",una@example.com,https://chat.example.org/invite/a',
    "'=Bo,,https://chat.example.org/invite/b",
    '',
  ]);
});
