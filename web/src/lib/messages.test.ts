import { expect, test } from 'vitest';
import { fromAgent, message } from '../test/make';
import { counts, insert, mentionsMe, merge, replace, toggled } from './messages';

const [a, b, c] = [message({ seq: 1 }), message({ seq: 2 }), message({ seq: 3 })];

test('messages are in the order of seq, however they arrive', () => {
  expect([b, c, a].reduce(insert, [])).toEqual([a, b, c]);
});
test('the same message again replaces the first one', () => {
  const edited = { ...b, content: 'new' };
  expect(insert([a, b, c], edited)).toEqual([a, edited, c]);
  expect(replace([a, c], edited)).toEqual([a, c]);
});
test('a page adds missing messages and keeps existing ones', () => {
  const newer = { ...b, content: 'from an event' };
  expect(merge([newer], [a, b, c])).toEqual([a, newer, c]);
});
test('reactions toggle per person', () => {
  expect(toggled([], '👍', 'u', true)).toEqual([{ emoji: '👍', user_ids: ['u'], agent_ids: [] }]);
  expect(toggled([{ emoji: '👍', user_ids: ['v'], agent_ids: [] }], '👍', 'u', true)[0]!.user_ids).toEqual([
    'v',
    'u',
  ]);
  expect(toggled([{ emoji: '👍', user_ids: ['u'], agent_ids: [] }], '👍', 'u', false)).toEqual([]);
  expect(toggled([{ emoji: '👍', user_ids: ['u'], agent_ids: [] }], '👍', 'u', true)[0]!.user_ids).toEqual([
    'u',
  ]);
});
test('an agent’s reaction stays when a person takes theirs back', () => {
  const both = [{ emoji: '👍', user_ids: ['u'], agent_ids: ['agent_1'] }];
  expect(toggled(both, '👍', 'u', false)).toEqual([{ emoji: '👍', user_ids: [], agent_ids: ['agent_1'] }]);
});
test('unread: messages of others on the main line', () => {
  expect(counts(a, 'user_me')).toBe(true);
  expect(counts(fromAgent(), 'user_me')).toBe(true);
  expect(counts(a, 'user_bo')).toBe(false);
  expect(counts(message({ kind: 'notice' }), 'user_me')).toBe(false);
  expect(counts(message({ fork_id: 'fork_1' }), 'user_me')).toBe(false);
});
test('mentions of me are by handle or by group, and not my own', () => {
  const at = (type: 'user' | 'group', id: string | null) => [{ type, id, handle: 'x', start: 0, length: 2 }];
  expect(mentionsMe(message({ mentions: at('user', 'user_me') }), 'user_me')).toBe(true);
  expect(mentionsMe(message({ mentions: at('group', null) }), 'user_me')).toBe(true);
  expect(mentionsMe(message({ mentions: at('user', 'user_cy') }), 'user_me')).toBe(false);
  expect(mentionsMe(message({ mentions: at('group', null) }), 'user_bo')).toBe(false);
});
