import { expect, test } from 'vitest';
import { namedSkills, skillsText } from './agents-skills';
import { blank, newOf, patchOf } from './agents-fields';

test('the skills of an agent are described', () => {
  expect(skillsText('all', false)).toBe('All');
  expect(skillsText(null, false)).toBe('None');
  expect(skillsText(null, true)).toBe('As the agent it is based on');
  expect(skillsText([], true)).toBe('None');
  expect(skillsText(['tides', 'moon'], false)).toBe('tides, moon');
  expect(namedSkills('all')).toEqual([]);
});

test('an empty list differs from an unset field, because it overrides the base', () => {
  const start = { ...blank(), name: 'sage', instructions: 'Help.' };
  expect(newOf(start)).not.toHaveProperty('skills');
  expect(newOf({ ...start, skills: [] }).skills).toEqual([]);
  expect(patchOf({ ...start, skills: ['tides'] }, { ...start, skills: null })).toEqual({ skills: null });
  expect(patchOf(start, { ...start, skills: 'all' })).toEqual({ skills: 'all' });
});
