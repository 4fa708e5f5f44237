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

/** A step is done if both of its parts are filled in. The last step is done if agents receive its text. */
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

/** Labels of fields, in display order. */
export const LABELS: Record<keyof PersonaFields, string> = {
  name: 'Name',
  description: 'Description',
  avatar: 'Avatar',
  problem_space: 'Problem space',
  high_level: 'High level',
  archetype: 'Archetype',
  principles: 'Principles',
  taste: 'Taste',
  compressed: 'Compressed text',
};
/** Formats a value of a field as text. */
export function fieldText(field: keyof PersonaFields, value: unknown): string {
  if (field === 'name' || field === 'description' || field === 'compressed') return value as string;
  if (field === 'avatar') {
    const { emoji, color, file_id } = (value ?? {}) as Partial<NonNullable<PersonaFields['avatar']>>;
    return [file_id ? 'Picture' : emoji, color].filter(Boolean).join(' ') || 'Generated from the name';
  }
  const { text, items } = value as PersonaFields['taste'];
  return [text ?? '', ...(items ?? []).map((item) => `- ${item}`)].filter(Boolean).join('\n');
}
