import { expect, test } from 'vitest';
import type { AgentReflection, AgentSentiment, Metaprompt } from '../api/agent-types';
import { choiceOf, withChoice } from './agents-adaptation';
import { blank, changedFields, fieldsOf, patchOf } from './agents-fields';
import { profile } from '../test/make-agents';

const unset: AgentSentiment = { enabled: null, profile: null, method: null, presets: null };

test('a profile turns scores on, unless they are turned off', () => {
  const choices: [AgentSentiment | null, string][] = [
    [null, 'inherit'],
    [unset, 'off'],
    [{ ...unset, profile: 'off' }, 'off'],
    [{ ...unset, profile: 'tutor' }, 'tutor'],
    [{ ...unset, enabled: false, profile: 'tutor' }, 'off'],
    [{ ...unset, enabled: true }, 'custom'],
    [{ ...unset, enabled: true, profile: 'off' }, 'custom'],
  ];
  for (const [sentiment, choice] of choices) expect(choiceOf(sentiment)).toBe(choice);
  expect(withChoice(null, 'basic')).toEqual({ enabled: true, profile: 'basic' });
  const low = { ...unset, frustration_threshold: -0.5 };
  expect(withChoice(low, 'off')).toMatchObject({ enabled: false, frustration_threshold: -0.5 });
  expect(withChoice(low, 'inherit')).toBeNull();
});

test('unset fields are not a change', () => {
  const full = fieldsOf(profile({ sentiment: { ...unset, enabled: true, profile: 'basic' } }));
  const short = { ...full, sentiment: { enabled: true, profile: 'basic' } satisfies AgentSentiment };
  expect(changedFields(full, short)).toEqual([]);
  expect(patchOf(full, { ...full, sentiment: null })).toEqual({ sentiment: null });
  // An empty list differs from the presets of the profile.
  const none = { ...full, sentiment: { ...full.sentiment, presets: [] } };
  expect(changedFields(full, none)).toEqual(['sentiment']);
});

test('a reflection without an interval or metaprompts counts as unset', () => {
  const reflection = (reflection: AgentReflection) => ({ ...blank(), reflection });
  expect(changedFields(blank(), reflection({ interval_turns: null, metaprompts: [] }))).toEqual([]);
  const trigger = { type: 'turn_interval', interval_turns: 6 } as const;
  const first: Metaprompt = { id: 'mood', description: '', template: 'How are they?', trigger };
  const stored = { ...first, temperature: null, trigger: { ...first.trigger, event: null } };
  expect(changedFields(reflection({ metaprompts: [first] }), reflection({ metaprompts: [stored] }))).toEqual(
    [],
  );
});
