import { expect, test } from 'vitest';
import type { Agent } from '../api/types';
import { agent } from '../test/make';
import { resolveResponder, responderText, UNBOUND } from './responder';

const vibe = agent('agent_vibe', 'vibe', 'Vibe');
const coder: Agent = { ...agent('agent_coder', 'coder', 'Coder'), version: 4 };
const people = (...list: Agent[]) => ({
  agentsById: new Map(list.map((a) => [a.id, a])),
  hasAccess: (a: Agent) => !a.access_control,
});
const nobodyElse = { allowed_subjects: ['user_bo'], denied_subjects: [] };
const bound = { agent_id: 'agent_coder', agent_version: 4, auto_reply: true };
const respond = (place = bound, list = [vibe, coder]) =>
  resolveResponder(place, people(...list), 'agent_vibe');

test('a conversation without an agent has no responder', () => {
  expect(respond(UNBOUND as typeof bound)).toMatchObject({ state: 'nobody', next: null, newest: null });
  expect(responderText(respond(UNBOUND as typeof bound))).toBe('Agents reply when mentioned');
});
test('the bound agent replies', () => {
  expect(respond()).toMatchObject({ state: 'here', name: 'Coder', next: coder, version: null });
});
test('without auto-reply, the agent stays bound and replies only to mentions', () => {
  const quiet = respond({ ...bound, auto_reply: false });
  expect(quiet).toMatchObject({ state: 'here', next: null });
  expect(responderText(quiet)).toBe('Coder, only when mentioned');
});
test('an outdated version is shown with the newest one', () => {
  expect(respond({ ...bound, agent_version: 2 })).toMatchObject({ version: 2, newest: 4, next: coder });
});
test.each([
  ['archived', 'gone', 'Coder, no longer available'],
  ['inactive', 'off', 'Coder, turned off'],
] as const)('the default agent stands in for one that is %s', (status, state, words) => {
  const s = respond(bound, [vibe, { ...coder, status }]);
  expect(s).toMatchObject({ state, name: 'Coder', next: vibe, newest: null });
  expect(responderText(s)).toBe(words);
});
test('there is no fallback for an agent that replies only to mentions, or without a default agent', () => {
  const off: Agent = { ...coder, status: 'archived' };
  expect(respond({ ...bound, auto_reply: false }, [vibe, off]).next).toBeNull();
  expect(resolveResponder(bound, people(off), null).next).toBeNull();
  expect(resolveResponder(bound, people(off), 'agent_coder').next).toBeNull();
});
test('an agent that the user cannot see has no name and no version', () => {
  const s = respond(bound, [vibe]);
  expect(s).toMatchObject({ state: 'barred', id: 'agent_coder', next: null, newest: null });
  expect(responderText(s)).toBe('A restricted agent, not available to you');
});
test('an agent that the user can see but not use replies to others', () => {
  const s = respond({ ...bound, agent_version: 1 }, [vibe, { ...coder, access_control: nobodyElse }]);
  expect(s).toMatchObject({ state: 'barred', name: 'Coder', next: null, newest: null });
});
test('an agent that the user cannot use is not a fallback', () => {
  const own: Agent = { ...vibe, access_control: nobodyElse };
  expect(respond(bound, [own, { ...coder, status: 'archived' }]).next).toBeNull();
});
