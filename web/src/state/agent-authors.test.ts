import { expect, test } from 'vitest';
import type { AgentProfile } from '../api/agent-types';
import type { Member, Role } from '../api/types';
import { member } from '../test/make';
import { profile } from '../test/make-agents';
import { authorsText, isEditor } from './agent-authors';

const of = (id: string, name: string, role: Role): [string, Member] => [
  id,
  { ...member(id, name, id), role },
];
const members = new Map([of('ada', 'Ada', 'admin'), of('bo', 'Bo', 'member'), of('cy', 'Cy', 'member')]);
const nobody = profile().authors;
const text = (authors: Partial<AgentProfile['authors']>, me = 'ada') =>
  authorsText(profile({ authors: { ...nobody, ...authors } }), members, me);

test('texts by the server and by admins are not mentioned', () => {
  expect(text({})).toBe('');
  expect(text({ instructions: 'ada' })).toBe('');
});

test('each author is named once, with all of the parts', () => {
  expect(text({ instructions: 'bo' })).toBe('Its instructions are by Bo.');
  expect(text({ identity: 'bo' })).toBe('Its identity is by Bo.');
  expect(text({ instructions: 'bo', tools: 'bo', identity: 'cy', agency: 'ada' })).toBe(
    'Its instructions and tools are by Bo and its identity is by Cy.',
  );
  expect(text({ agents_md: 'gone' })).toBe('Its AGENTS.md is by a former member.');
  expect(text({ tools: 'bo' }, 'bo')).toBe('Its tools are by you.');
});

test('editors, their roles, and admins can change an agent', () => {
  const may = (editors: string[], role: Role = 'member') =>
    isEditor(profile({ editors }), { id: 'bo', role });
  expect(may([])).toBe(true);
  expect(may(['bo'])).toBe(true);
  expect(may(['role:member'])).toBe(true);
  expect(may(['cy', 'role:admin'])).toBe(false);
  expect(may(['cy'], 'admin')).toBe(true);
});
