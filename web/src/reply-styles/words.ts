import type { StyleAddon, StylePreset, StyleRouting, StyleRule, StylesForm } from '../api/reply-styles';

/** Labels of the parts of the document, in display order. */
export const PARTS: Record<keyof StylesForm, string> = {
  addons: 'Add-ons',
  presets: 'Presets',
  rules: 'Rules',
  routing: 'Defaults',
};

const addonText = ({ id, text }: StyleAddon) => `${id}\n${text}`;
const presetText = ({ id, name, description, addons }: StylePreset) =>
  [`${name} (${id})`, description, `Add-ons: ${addons.join(', ') || 'none'}`].filter(Boolean).join('\n');
function ruleText({ keywords, min_length, max_length, preset, priority }: StyleRule): string {
  return [
    `Style: ${preset}`,
    keywords?.length ? `Keywords: ${keywords.join(', ')}` : '',
    min_length ? `Shortest message: ${min_length}` : '',
    max_length ? `Longest message: ${max_length}` : '',
    `Priority: ${priority ?? 0}`,
  ]
    .filter(Boolean)
    .join('\n');
}
function routingText(routing: StyleRouting): string {
  return [
    ...Object.entries(routing.default_preset_by_mode).map(([mode, preset]) => `${mode}: ${preset}`),
    `Replies until rules and defaults are applied again: ${routing.review_every_n_turns}`,
    `Also applied after messages are summarized: ${routing.force_review_on_compaction ? 'yes' : 'no'}`,
  ].join('\n');
}

/** Formats a part of the document as text. */
export function partText(part: keyof StylesForm, value: unknown): string {
  if (part === 'routing') return routingText(value as StyleRouting);
  const texts =
    part === 'addons'
      ? (value as StyleAddon[]).map(addonText)
      : part === 'presets'
        ? (value as StylePreset[]).map(presetText)
        : (value as StyleRule[]).map(ruleText);
  return texts.join('\n\n');
}
