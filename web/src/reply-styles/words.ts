import type { ChoiceFields, RuleFields, StyleFields } from './document';

export const STYLE_LABELS: Record<keyof StyleFields, string> = {
  name: 'Name',
  description: 'Description',
  text: 'Text',
};
export const CHOICE_LABELS: Record<keyof ChoiceFields, string> = {
  rules: 'Rules',
  defaults: 'Defaults',
  every: 'Replies until rules and defaults are applied again',
  afterSummaries: 'Also apply them after messages are summarized',
};

function ruleText({ keywords, min_length, max_length, preset, priority }: RuleFields): string {
  return [
    `Style: ${preset}`,
    keywords ? `Keywords: ${keywords.replaceAll('\n', ', ')}` : '',
    min_length ? `Shortest message: ${min_length}` : '',
    max_length ? `Longest message: ${max_length}` : '',
    `Priority: ${priority ?? 0}`,
  ]
    .filter(Boolean)
    .join('\n');
}
/** Formats a value of these fields as text. */
export function choiceText(field: keyof ChoiceFields, value: unknown): string {
  if (field === 'rules') return (value as RuleFields[]).map(ruleText).join('\n\n');
  if (field === 'defaults')
    return (value as ChoiceFields['defaults']).map(({ mode, preset }) => `${mode}: ${preset}`).join('\n');
  return field === 'afterSummaries' ? (value ? 'Yes' : 'No') : String(value);
}
