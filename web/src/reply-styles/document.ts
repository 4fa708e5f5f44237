import type { StylePreset, StylesForm } from '../api/reply-styles';

/** A style as people see it: a preset with the text of its add-ons. */
export interface StyleFields {
  name: string;
  description: string;
  text: string;
}
export interface RuleFields {
  /** One keyword per line. */
  keywords: string;
  min_length: number | null;
  max_length: number | null;
  preset: string;
  priority: number | null;
}
/** When agents choose a style on their own. */
export interface ChoiceFields {
  rules: RuleFields[];
  defaults: { mode: string; preset: string }[];
  every: number | null;
  afterSummaries: boolean;
}

const ID_MAX = 64;
/** IDs that mean something else in an agent's profile. */
const RESERVED = ['auto', 'none'];
/** ID from a name, different from the others. */
function idFor(name: string, others: readonly string[]): string {
  const plain = name.normalize('NFKD').toLowerCase().replaceAll(/\p{M}/gu, '');
  const base = plain.replaceAll(/[^a-z0-9]+/g, '_').replaceAll(/^_+|_+$/g, '') || 'style';
  const taken = new Set([...others, ...RESERVED]);
  for (let n = 1; ; n++) {
    const end = n === 1 ? '' : `_${n}`;
    const id = base.slice(0, ID_MAX - end.length) + end;
    if (!taken.has(id)) return id;
  }
}
const contentOf = ({ addons, presets, routing, rules }: StylesForm): StylesForm => ({
  addons,
  presets,
  routing,
  rules,
});
/** Add-ons that only this preset uses. */
function ownAddons(doc: StylesForm, preset: StylePreset): Set<string> {
  const shared = new Set(doc.presets.filter((p) => p.id !== preset.id).flatMap((p) => p.addons));
  return new Set(preset.addons.filter((id) => !shared.has(id)));
}

export function styleIn(doc: StylesForm, id: string | null): StyleFields {
  const preset = doc.presets.find((p) => p.id === id);
  const texts = preset?.addons.map((addon) => doc.addons.find((a) => a.id === addon)?.text ?? '') ?? [];
  return {
    name: preset?.name ?? '',
    description: preset?.description ?? '',
    text: texts.map((text) => text.trim()).join('\n\n'),
  };
}

/** The document with a changed style, or with a new one. A changed text replaces no add-on of another style. */
export function withStyle(doc: StylesForm, id: string | null, fields: StyleFields): StylesForm {
  const { name, description, text } = fields;
  const old = doc.presets.find((p) => p.id === id);
  const next: StylePreset = old
    ? { ...old, name, description }
    : {
        id: idFor(
          name,
          doc.presets.map((p) => p.id),
        ),
        name,
        description,
        addons: [],
      };
  const presets = old ? doc.presets.map((p) => (p === old ? next : p)) : [...doc.presets, next];
  if (old && text === styleIn(doc, id).text) return { ...contentOf(doc), presets };
  const own = old ? ownAddons(doc, old) : new Set<string>();
  const [kept] = own;
  const addon =
    kept ??
    idFor(
      name,
      doc.addons.map((a) => a.id),
    );
  next.addons = [addon];
  const others = doc.addons.filter((a) => a.id === kept || !own.has(a.id));
  const addons = kept
    ? others.map((a) => (a.id === kept ? { ...a, text } : a))
    : [...others, { id: addon, text }];
  return { ...contentOf(doc), addons, presets };
}

/** The document without a style, and without the rules and defaults that choose it. */
export function withoutStyle(doc: StylesForm, id: string): StylesForm {
  const old = doc.presets.find((p) => p.id === id);
  const own = old ? ownAddons(doc, old) : new Set<string>();
  const defaults = Object.entries(doc.routing.default_preset_by_mode).filter(([, preset]) => preset !== id);
  return {
    addons: doc.addons.filter((a) => !own.has(a.id)),
    presets: doc.presets.filter((p) => p.id !== id),
    routing: { ...doc.routing, default_preset_by_mode: Object.fromEntries(defaults) },
    rules: doc.rules.filter((rule) => rule.preset !== id),
  };
}

export const choicesIn = ({ rules, routing }: StylesForm): ChoiceFields => ({
  rules: rules.map((r) => ({
    keywords: (r.keywords ?? []).join('\n'),
    min_length: r.min_length ?? null,
    max_length: r.max_length ?? null,
    preset: r.preset,
    priority: r.priority ?? 0,
  })),
  defaults: Object.entries(routing.default_preset_by_mode)
    .map(([mode, preset]) => ({ mode, preset }))
    .sort((a, b) => (a.mode < b.mode ? -1 : 1)),
  every: routing.review_every_n_turns,
  afterSummaries: routing.force_review_on_compaction,
});

export function withChoices(doc: StylesForm, fields: ChoiceFields): StylesForm {
  const { rules, defaults, every, afterSummaries } = fields;
  return {
    ...contentOf(doc),
    rules: rules.map((r) => ({
      ...r,
      keywords: r.keywords
        .split('\n')
        .map((line) => line.trim())
        .filter(Boolean),
      priority: r.priority ?? 0,
    })),
    routing: {
      review_every_n_turns: every ?? 0,
      force_review_on_compaction: afterSummaries,
      default_preset_by_mode: Object.fromEntries(
        defaults.map(({ mode, preset }): [string, string] => [mode.trim(), preset]),
      ),
    },
  };
}
