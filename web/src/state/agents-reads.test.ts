import { expect, test } from 'vitest';
import { profile } from '../test/make-agents';
import { readsText } from './agents-reads';

test('what an agent reads follows its profile', () => {
  const memory = (more: object) => profile({ memory: more as never });
  expect(readsText(profile())).toBe('The newest 50 messages, summaries of older ones, and memories');
  expect(readsText(memory({ summary_enabled: false }))).toBe('The newest 50 messages and memories');
  const off = { conversation: false, user: false, persona: false, organization: false, agent: false };
  expect(readsText(memory({ summary_enabled: false, scopes: off }))).toBe('The newest 50 messages');
  const one = readsText(memory({ scopes: { ...off, agent: true } }));
  expect(one).toBe('The newest 50 messages, summaries of older ones, and memories');
  const tool = { type: 'file_search', available: true, unavailable_because: null } as const;
  const search = profile({ tools: [tool] });
  expect(readsText(search)).toMatch(/, and what its tools find$/);
});
