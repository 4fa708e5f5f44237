import type { ResolutionEdit, ResolutionPoint } from '../api/types';
import { oneLine } from './text';

/** The server's limits, in UTF-16 units and entries. */
export const HEADLINE_MAX = 120;
export const CONCLUSION_MAX = 600;
export const TEXT_MAX = 500;
export const SOURCES_MAX = 20;
export const POINTS_MIN = 2;

export type ListName = 'key_points' | 'action_items' | 'open_questions' | 'deferred_items';
export type FieldName = 'headline' | 'conclusion' | ListName;

export interface ListText {
  name: ListName;
  title: string;
  /** Singular, as in "Key point 2". */
  one: string;
  add: string;
  max: number;
  hint?: string;
}
export const LISTS: readonly ListText[] = [
  { name: 'key_points', title: 'Key points', one: 'Key point', add: 'Add a point', max: 4, hint: '2 to 4' },
  { name: 'action_items', title: 'Action items', one: 'Action item', add: 'Add an action', max: 20 },
  { name: 'open_questions', title: 'Open questions', one: 'Open question', add: 'Add a question', max: 10 },
  { name: 'deferred_items', title: 'Postponed', one: 'Postponed', add: 'Add an item', max: 10 },
];
export const FIELD_LABELS: Record<FieldName, string> = {
  headline: 'Headline',
  conclusion: 'Conclusion',
  key_points: 'Key points',
  action_items: 'Action items',
  open_questions: 'Open questions',
  deferred_items: 'Postponed',
};
export const FIELDS: readonly FieldName[] = [
  'headline',
  'conclusion',
  'key_points',
  'action_items',
  'open_questions',
  'deferred_items',
];

/** A line of a resolution that is being edited. Only lines of `action_items` use owner, due, and done. */
export interface Entry {
  /** Stable while the editor is open, so that moving a line moves its field with caret and focus. */
  key: string;
  text: string;
  sources: string[];
  /** ID that the server gives to action items; null until then. */
  id: string | null;
  owner_id: string | null;
  owner_name: string | null;
  due: string | null;
  done: boolean;
}
export interface Fields extends Record<ListName, Entry[]> {
  headline: string;
  conclusion: string;
}

let keys = 0;
export const newEntry = (x: Partial<Entry> = {}): Entry => ({
  key: `e${++keys}`,
  text: '',
  sources: [],
  id: null,
  owner_id: null,
  owner_name: null,
  due: null,
  done: false,
  ...x,
});
export const noFields = (): Fields => ({
  headline: '',
  conclusion: '',
  key_points: [],
  action_items: [],
  open_questions: [],
  deferred_items: [],
});

/** The edited resolution in the form that the server accepts, without empty lines. */
export type FullEdit = Required<ResolutionEdit>;

/** `before`: the fields on screen; lines that remain keep their key, and so their focus. */
export function fieldsOf(r: FullEdit, before: Fields | null = null): Fields {
  const taken = new Set<string>();
  const list = (name: ListName) =>
    r[name].map((x, i) => {
      const old = before?.[name] ?? [];
      const id = 'id' in x ? (x.id ?? null) : null;
      const fits = (e: Entry) => !taken.has(e.key) && (id && e.id ? e.id === id : oneLine(e.text) === x.text);
      const here = old[i] && !taken.has(old[i].key) && !(id && old[i].id) ? old[i] : undefined;
      const same = old.find(fits) ?? here;
      const { text, sources = [] } = x;
      const own = 'due' in x || id ? (x as Partial<Entry>) : {};
      const entry = newEntry({
        text,
        sources: [...sources],
        id,
        owner_id: own.owner_id ?? null,
        owner_name: own.owner_name ?? null,
        due: own.due ?? null,
        done: own.done ?? false,
        ...(same ? { key: same.key } : {}),
      });
      taken.add(entry.key);
      return entry;
    });
  return {
    headline: r.headline,
    conclusion: r.conclusion,
    key_points: list('key_points'),
    action_items: list('action_items'),
    open_questions: list('open_questions'),
    deferred_items: list('deferred_items'),
  };
}

export function editOf(f: Fields): FullEdit {
  const filled = (name: ListName) => f[name].filter((e) => e.text.trim());
  const point = (e: Entry): ResolutionPoint => ({ text: oneLine(e.text), sources: [...e.sources] });
  return {
    headline: oneLine(f.headline),
    conclusion: oneLine(f.conclusion),
    key_points: filled('key_points').map(point),
    action_items: filled('action_items').map((e) => ({
      ...(e.id ? { id: e.id } : {}),
      ...point(e),
      owner_id: e.owner_id,
      owner_name: e.owner_name,
      due: e.due,
      done: e.done,
    })),
    open_questions: filled('open_questions').map(point),
    deferred_items: filled('deferred_items').map(point),
  };
}
export const NOTHING: FullEdit = editOf(noFields());

/** An action item that just got its ID compares equal to itself without it. */
const bare = (value: unknown): string =>
  JSON.stringify(value, (k, v: unknown) => (k === 'id' || k === 'key' ? undefined : v));
const same = (a: FullEdit, b: FullEdit, name: FieldName) => bare(a[name]) === bare(b[name]);

export const changedFields = (base: FullEdit, now: FullEdit): FieldName[] =>
  FIELDS.filter((name) => !same(base, now, name));

export const pick = (edit: FullEdit, names: readonly FieldName[]): ResolutionEdit =>
  Object.fromEntries(names.map((name) => [name, edit[name]]));

/** Merges two people's edits of the same text; returns the merged fields and the conflicting ones. */
export function merge(
  base: FullEdit,
  mine: FullEdit,
  theirs: FullEdit,
): { merged: FullEdit; clashes: FieldName[] } {
  const merged = { ...theirs };
  const clashes: FieldName[] = [];
  for (const name of changedFields(base, mine)) {
    Object.assign(merged, { [name]: mine[name] });
    if (!same(base, theirs, name) && !same(mine, theirs, name)) clashes.push(name);
  }
  return { merged, clashes };
}

/** Fields that exceed a limit; they stay on the device until they fit. */
export function tooLong(edit: FullEdit): FieldName[] {
  const lists = LISTS.filter(
    (l) => edit[l.name].length > l.max || edit[l.name].some((e) => e.text.length > TEXT_MAX),
  ).map((l) => l.name);
  return [
    ...(edit.headline.length > HEADLINE_MAX ? (['headline'] as const) : []),
    ...(edit.conclusion.length > CONCLUSION_MAX ? (['conclusion'] as const) : []),
    ...lists,
  ];
}
/** Reasons why the resolution cannot be posted, one sentence each, the most important first. */
export function problems(edit: FullEdit): string[] {
  const found: string[] = [];
  if (!edit.headline) found.push('Write a headline');
  for (const name of tooLong(edit)) {
    if (name === 'headline') found.push(`Headline is ${edit.headline.length - HEADLINE_MAX} over the limit`);
    else if (name === 'conclusion')
      found.push(`Conclusion is ${edit.conclusion.length - CONCLUSION_MAX} over the limit`);
    else found.push(`${FIELD_LABELS[name]}: a line is longer than ${TEXT_MAX} characters`);
  }
  return found;
}

/** Source numbers across the whole resolution, in reading order: message ID to number, starting at 1. */
export function sourceNumbers(
  r: Record<ListName, readonly { sources: readonly string[] }[]>,
): Map<string, number> {
  const numbers = new Map<string, number>();
  for (const { name } of LISTS)
    for (const line of r[name])
      for (const id of line.sources) if (!numbers.has(id)) numbers.set(id, numbers.size + 1);
  return numbers;
}
