import { expect, test } from 'vitest';
import type { Agent } from '../api/types';
import { agent } from '../test/make';
import { standing, standingWords, UNBOUND } from './standing';

const vibe = agent('agent_vibe', 'vibe', 'Vibe');
const coder: Agent = { ...agent('agent_coder', 'coder', 'Coder'), version: 4 };
const people = (...list: Agent[]) => ({
  agents: new Map(list.map((a) => [a.id, a])),
  permits: (a: Agent) => !a.access_control,
});
const nobodyElse = { allowed_subjects: ['user_bo'], denied_subjects: [] };
const bound = { agent_id: 'agent_coder', agent_version: 4, auto_reply: true };
const look = (place = bound, list = [vibe, coder]) => standing(place, people(...list), 'agent_vibe');

test('nobody answers in a place without an agent', () => {
  expect(look(UNBOUND as typeof bound)).toMatchObject({ state: 'nobody', next: null, newest: null });
  expect(standingWords(look(UNBOUND as typeof bound))).toBe('Agents: when mentioned');
});
test('the bound agent answers', () => {
  expect(look()).toMatchObject({ state: 'here', name: 'Coder', next: coder, version: null });
});
test('without auto-reply it stands there and answers mentions only', () => {
  const quiet = look({ ...bound, auto_reply: false });
  expect(quiet).toMatchObject({ state: 'here', next: null });
  expect(standingWords(quiet)).toBe('Coder, only when mentioned');
});
test('an older version is told, with the newest', () => {
  expect(look({ ...bound, agent_version: 2 })).toMatchObject({ version: 2, newest: 4, next: coder });
});
test.each([
  ['archived', 'gone', 'Coder, no longer available'],
  ['inactive', 'off', 'Coder, turned off'],
] as const)('the default agent stands in for one that is %s', (status, state, words) => {
  const s = look(bound, [vibe, { ...coder, status }]);
  expect(s).toMatchObject({ state, name: 'Coder', next: vibe, newest: null });
  expect(standingWords(s)).toBe(words);
});
test('nobody stands in where it answered mentions only, nor without a default', () => {
  const off: Agent = { ...coder, status: 'archived' };
  expect(look({ ...bound, auto_reply: false }, [vibe, off]).next).toBeNull();
  expect(standing(bound, people(off), null).next).toBeNull();
  expect(standing(bound, people(off), 'agent_coder').next).toBeNull();
});
test('an agent that one may not see has no name and no version', () => {
  const s = look(bound, [vibe]);
  expect(s).toMatchObject({ state: 'barred', id: 'agent_coder', next: null, newest: null });
  expect(standingWords(s)).toBe('A restricted agent, not available to you');
});
test('one that one may see and not use answers others', () => {
  const s = look({ ...bound, agent_version: 1 }, [vibe, { ...coder, access_control: nobodyElse }]);
  expect(s).toMatchObject({ state: 'barred', name: 'Coder', next: null, newest: null });
});
test('who may not be asked does not stand in either', () => {
  const own: Agent = { ...vibe, access_control: nobodyElse };
  expect(look(bound, [own, { ...coder, status: 'archived' }]).next).toBeNull();
});
