/** One line of a comparison; `gap` represents a number of unchanged lines. */
export type DiffLine = { kind: 'same' | 'added' | 'removed'; text: string } | { kind: 'gap'; lines: number };

/** Unchanged lines shown around a change. */
const AROUND = 2;
/** Above this number of comparisons, the middle is shown as removed and added, as a whole. */
const CELLS_MAX = 4_000_000;

/** Lines common to both, in order, as pairs of indexes: longest common subsequence. */
function common(a: string[], b: string[]): [number, number][] {
  if (a.length * b.length > CELLS_MAX) return [];
  const width = b.length + 1;
  const best = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      best[i * width + j] =
        a[i] === b[j]
          ? best[(i + 1) * width + j + 1]! + 1
          : Math.max(best[(i + 1) * width + j]!, best[i * width + j + 1]!);
  const pairs: [number, number][] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) pairs.push([i++, j++]);
    else if (best[(i + 1) * width + j]! >= best[i * width + j + 1]!) i++;
    else j++;
  }
  return pairs;
}

/** Line diff of two texts, including all unchanged lines. */
export function lineDiff(before: string, after: string): Exclude<DiffLine, { kind: 'gap' }>[] {
  const [a, b] = [before, after].map((t) => (t === '' ? [] : t.split('\n'))) as [string[], string[]];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const [x, y] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  const line = (kind: 'same' | 'added' | 'removed') => (text: string) => ({ kind, text });
  const list = a.slice(0, head).map(line('same'));
  let [i, j] = [0, 0];
  for (const [p, q] of [...common(x, y), [x.length, y.length] as [number, number]]) {
    list.push(...x.slice(i, p).map(line('removed')), ...y.slice(j, q).map(line('added')));
    if (p < x.length) list.push({ kind: 'same', text: x[p]! });
    [i, j] = [p + 1, q + 1];
  }
  return [...list, ...a.slice(a.length - tail).map(line('same'))];
}

/** The same diff with long unchanged runs folded. */
export function folded(before: string, after: string): DiffLine[] {
  const all = lineDiff(before, after);
  const near = all.map((_, i) =>
    all.slice(Math.max(0, i - AROUND), i + AROUND + 1).some((l) => l.kind !== 'same'),
  );
  const list: DiffLine[] = [];
  for (const [i, l] of all.entries()) {
    const last = list.at(-1);
    if (near[i]) list.push(l);
    else if (last?.kind === 'gap') last.lines++;
    else list.push({ kind: 'gap', lines: 1 });
  }
  return list;
}

/** Names for the IDs in a value. */
export interface Names {
  person(id: string): string;
  agent(id: string): string;
  persona(id: string): string;
}

/** A field's value as comparable text. */
export function valueText(field: string, value: unknown, names: Names): string {
  if (value === null || value === undefined || value === '') return '';
  if (field === 'base_profile_id') return names.agent(String(value));
  if (field === 'persona_id') return names.persona(String(value));
  if (typeof value === 'boolean') return value ? 'Yes' : 'No';
  if (typeof value !== 'object') return String(value);
  if (field === 'access_control') return accessText(value, names);
  if (field === 'editors') return (value as string[]).map((s) => subjectName(s, names)).join(', ');
  if (field === 'avatar') {
    const { emoji, color, file_id } = value as { emoji?: string; color?: string; file_id?: string };
    return [emoji, color, file_id && 'a picture'].filter(Boolean).join(' ');
  }
  if (field === 'tools') return Array.isArray(value) && !value.length ? '' : JSON.stringify(value, null, 2);
  if (Array.isArray(value)) return value.map(String).join('\n');
  return Object.entries(value)
    .filter(([, v]) => v !== null && v !== '' && !(Array.isArray(v) && !v.length))
    .map(([k, v]) => `${title(k)}: ${text(v)}`)
    .join('\n');
}
const title = (key: string) => (key.charAt(0).toUpperCase() + key.slice(1)).replaceAll('_', ' ');
const text = (v: unknown): string =>
  Array.isArray(v)
    ? v.map((x) => `\n  ${text(x)}`).join('')
    : v !== null && typeof v === 'object'
      ? JSON.stringify(v)
      : String(v);

/** "Everyone except Bo", "Only admins, Ada". */
export function accessText(value: unknown, names: Names): string {
  const lists = value as { allowed_subjects?: string[]; denied_subjects?: string[] } | null;
  const said = (list: string[]) => list.map((s) => subjectName(s, names)).join(', ');
  const allowed = lists?.allowed_subjects ?? [];
  const denied = lists?.denied_subjects ?? [];
  const who = allowed.length ? `Only ${said(allowed)}` : 'Everyone';
  return denied.length ? `${who} except ${said(denied)}` : who;
}
const ROLES: Record<string, string> = {
  'role:admin': 'admins',
  'role:member': 'members',
  'role:viewer': 'viewers',
  'role:guest': 'guests',
};
export const subjectName = (subject: string, names: Pick<Names, 'person'>): string =>
  ROLES[subject] ?? names.person(subject);
