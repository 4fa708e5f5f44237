import type { Persona, PipelineStatus } from '../api/personas';

/** Fields that the editor changes. */
export type PersonaFields = Pick<
  Persona,
  | 'name'
  | 'description'
  | 'problem_space'
  | 'high_level'
  | 'archetype'
  | 'principles'
  | 'taste'
  | 'compressed'
  | 'avatar'
>;
export type SectionKey = 'problem_space' | 'high_level' | 'archetype' | 'principles' | 'taste';
export type StepKey = 'name' | SectionKey | 'compressed';

/** Steps in order, with the question that each answers. */
export const STEPS: { key: StepKey; name: string; hint: string }[] = [
  { key: 'name', name: 'Name', hint: 'Agents do not receive the name or the description.' },
  {
    key: 'problem_space',
    name: 'Problem space',
    hint: 'What does this character help with, and who is it for?',
  },
  { key: 'high_level', name: 'High level', hint: 'Who is it, in a few sentences?' },
  { key: 'archetype', name: 'Archetype', hint: 'Which role or person does it resemble?' },
  { key: 'principles', name: 'Principles', hint: 'What does it always do, and what does it never do?' },
  { key: 'taste', name: 'Taste', hint: 'How does it sound? What does it like and dislike?' },
  {
    key: 'compressed',
    name: 'Compressed text',
    hint: 'The text that agents receive once it is approved.',
  },
];

export const STATUS: Record<PipelineStatus, string> = {
  draft: 'Draft',
  refined: 'Refined',
  approved: 'Approved',
};

export type Mark = 'not started' | 'started' | 'done';

/** A step is done if both of its parts are filled; the last one, if agents receive its text. */
export function markOf(step: StepKey, fields: PersonaFields, approved: string | null): Mark {
  const of = (...parts: boolean[]): Mark =>
    parts.every(Boolean) ? 'done' : parts.some(Boolean) ? 'started' : 'not started';
  if (step === 'name') return of(!!fields.name.trim(), !!fields.description.trim());
  if (step === 'compressed') return of(!!fields.compressed.trim(), fields.compressed === approved);
  const { text, items } = fields[step];
  return of(!!text?.trim(), !!items?.length);
}

export const fieldsOf = (p: Persona): PersonaFields => ({
  name: p.name,
  description: p.description,
  problem_space: p.problem_space,
  high_level: p.high_level,
  archetype: p.archetype,
  principles: p.principles,
  taste: p.taste,
  compressed: p.compressed,
  avatar: p.avatar,
});

/** Fields of `after` that differ from `before`. */
export function changes(before: PersonaFields, after: PersonaFields): Partial<PersonaFields> {
  const keys = Object.keys(after) as (keyof PersonaFields)[];
  const changed = keys.filter((k) => JSON.stringify(before[k]) !== JSON.stringify(after[k]));
  return Object.fromEntries(changed.map((k) => [k, after[k]]));
}
