/** Syntax of the search field: words, and filters as words (`from:ada`). No state, no framework. */

/** Word at the caret; a quoted phrase is one word. */
export interface Word {
  start: number;
  end: number;
  text: string;
}
export function wordAt(text: string, caret: number): Word {
  for (const m of text.matchAll(/(?:[^\s"]|"[^"]*(?:"|$))+/g)) {
    const end = m.index + m[0].length;
    if (m.index <= caret && caret <= end) return { start: m.index, end, text: m[0] };
  }
  return { start: caret, end: caret, text: '' };
}

export const FILTERS = [
  { name: 'from', title: 'from:', note: 'Author', example: 'from:me' },
  { name: 'in', title: 'in:', note: 'Channel', example: 'in:general' },
  { name: 'has', title: 'has:', note: 'File, link, code, reaction, or result', example: 'has:link' },
  { name: 'before', title: 'before:', note: 'Before a date', example: 'before:2026-01-31' },
  { name: 'after', title: 'after:', note: 'On or after a date', example: 'after:2026-01-01' },
] as const;
export type FilterName = (typeof FILTERS)[number]['name'];

const FILTER = /^(from|in|has|before|after):(.*)$/i;
export function filterOf(word: string): { name: FilterName; value: string } | null {
  const m = FILTER.exec(word);
  return m ? { name: m[1]!.toLowerCase() as FilterName, value: m[2]! } : null;
}
const split = (q: string): string[] => q.match(/(?:[^\s"]|"[^"]*(?:"|$))+/g) ?? [];
/** The query without a filter whose value is missing. */
export const asked = (text: string): string =>
  split(text).some((w) => filterOf(w)?.value === '')
    ? split(text)
        .filter((w) => filterOf(w)?.value !== '')
        .join(' ')
    : text.trim();
/** Filters of a query, as typed. */
export const filtersIn = (q: string): string[] => split(q).filter((w) => filterOf(w)?.value);
export const without = (q: string, word: string): string =>
  split(q)
    .filter((w) => w !== word)
    .join(' ');

/** Replacement for the word at the caret. */
export interface Suggestion {
  key: string;
  kind: 'filter' | 'agent' | 'person' | 'channel' | 'thing' | 'day';
  insert: string;
  title: string;
  note: string;
  id?: string;
}
export interface Known {
  me: string;
  people: readonly { id: string; handle: string; name: string }[];
  agents: readonly { id: string; handle: string; name: string }[];
  channels: readonly { id: string; name: string; topic: string }[];
  today: Date;
}
const MAX = 7;
const THINGS: [string, string][] = [
  ['file', 'A file or an image'],
  ['link', 'A link'],
  ['code', 'Code'],
  ['reaction', 'A reaction'],
  ['result', 'The result of a deep dive'],
];
const DAYS: [string, number][] = [
  ['Today', 0],
  ['Yesterday', 1],
  ['A week ago', 7],
  ['A month ago', 30],
  ['A year ago', 365],
];

/** Suggestions for the word at the caret; none once it is complete. */
export function suggestionsFor(word: string, known: Known): Suggestion[] {
  const filter = filterOf(word);
  if (!filter) {
    if (word.length < 2) return [];
    return FILTERS.filter((f) => f.name.startsWith(word.toLowerCase())).map((f) => ({
      key: f.name,
      kind: 'filter',
      insert: f.title,
      title: f.title,
      note: f.note,
    }));
  }
  const value = filter.value.replace(/^[@#]/, '').toLowerCase();
  const all = valuesOf(filter.name, known);
  if (all.some((o) => o.insert.toLowerCase() === `${filter.name}:${value}`)) return [];
  const starts = (s: string) => s.toLowerCase().startsWith(value);
  const fits = (o: Suggestion) =>
    starts(o.insert.slice(filter.name.length + 1)) ||
    starts(o.title) ||
    o.title.toLowerCase().includes(' ' + value);
  return all.filter(fits).slice(0, MAX);
}

function valuesOf(name: FilterName, known: Known): Suggestion[] {
  const suggestion = (
    kind: Suggestion['kind'],
    value: string,
    title: string,
    note: string,
    id?: string,
  ): Suggestion => ({
    key: `${kind}:${id ?? value}`,
    kind,
    insert: `${name}:${value}`,
    title,
    note,
    ...(id ? { id } : {}),
  });
  switch (name) {
    case 'from':
      return [
        ...known.people
          .filter((p) => p.id === known.me)
          .map((p) => suggestion('person', 'me', 'Me', `@${p.handle}`, p.id)),
        ...known.agents.map((a) => suggestion('agent', a.handle, a.name, `@${a.handle}`, a.id)),
        ...known.people
          .filter((p) => p.id !== known.me)
          .map((p) => suggestion('person', p.handle, p.name, `@${p.handle}`, p.id)),
      ];
    case 'in':
      return known.channels.map((c) => suggestion('channel', c.name, c.name, c.topic, c.id));
    case 'has':
      return THINGS.map(([value, title]) => suggestion('thing', value, title, `has:${value}`));
    default:
      return DAYS.map(([title, days]) => {
        const at = new Date(known.today);
        at.setDate(at.getDate() - days);
        const day = [at.getFullYear(), at.getMonth() + 1, at.getDate()]
          .map((n) => String(n).padStart(2, '0'))
          .join('-');
        return suggestion('day', day, title, day);
      });
  }
}

/** Replaces the word. Adds a space, except after a filter's name, which its value follows. */
export function put(text: string, word: Word, insert: string): { text: string; caret: number } {
  const tail = text.slice(word.end);
  const gap = insert.endsWith(':') || tail.startsWith(' ') ? '' : ' ';
  const head = text.slice(0, word.start) + insert + gap;
  return { text: head + tail, caret: head.length + (gap || insert.endsWith(':') ? 0 : 1) };
}
