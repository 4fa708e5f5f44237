import { count } from '../lib/numbers';
import type { Usage, UsageBy, UsageCount, UsageRow } from '../api/admin-types';

export const BY: Record<UsageBy, { name: string; one: string }> = {
  person: { name: 'People', one: 'Person' },
  agent: { name: 'Agents', one: 'Agent' },
  model: { name: 'Models', one: 'Model' },
  month: { name: 'Months', one: 'Month' },
};
/** Number of months in the picker and in a report by month. */
export const MONTHS_BACK = 24;
export const MONTHS_SHOWN = 12;

/** "2026-11"; the server counts in UTC. */
export const monthOf = (date: Date): string => date.toISOString().slice(0, 7);
export function monthBefore(month: string, n: number): string {
  const [year = 0, m = 1] = month.split('-').map(Number);
  return monthOf(new Date(Date.UTC(year, m - 1 - n, 1)));
}
const monthFormat = new Intl.DateTimeFormat('en-GB', { month: 'long', year: 'numeric', timeZone: 'UTC' });
export const monthName = (month: string): string => monthFormat.format(new Date(`${month}-01T00:00:00Z`));
/** Newest first. */
export const monthsUntil = (month: string, n: number): string[] =>
  Array.from({ length: n }, (_, i) => monthBefore(month, i));

/** Range of one month. In a report by month, the year that ends with it. */
export const spanOf = (by: UsageBy, month: string): { from: string; to: string } => ({
  from: by === 'month' ? monthBefore(month, MONTHS_SHOWN - 1) : month,
  to: month,
});

const none: UsageCount = { tasks: 0, failed: 0, input_tokens: 0, output_tokens: 0, cost_usd: 0 };
export const tokens = (r: UsageCount): number => r.input_tokens + r.output_tokens;

/** Rows in the order of the table: most tokens first; months in calendar order, including months without usage. */
export function rowsOf(usage: Usage, by: UsageBy): UsageRow[] {
  if (by !== 'month')
    return [...usage.data].sort((a, b) => tokens(b) - tokens(a) || b.tasks - a.tasks || order(a, b));
  const known = new Map(usage.data.map((r) => [r.key, r]));
  return monthsUntil(usage.to, MONTHS_SHOWN)
    .filter((m) => m >= usage.from)
    .reverse()
    .map((key) => known.get(key) ?? { key, name: key, ...none });
}
const order = (a: UsageRow, b: UsageRow) => a.name.localeCompare(b.name);

export function nameOf(row: UsageRow, by: UsageBy): string {
  if (by === 'month') return monthName(row.key);
  return row.name || row.key;
}

const short = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });
/** "12.3k", for narrow columns. */
export const brief = (n: number): string => (n < 10_000 ? count(n) : short.format(n).replace('K', 'k'));
export { money } from '../lib/numbers';

/** A CSV cell that a spreadsheet does not interpret as a formula. */
export const cell = (value: string | number | null): string => {
  const text = String(value ?? '');
  const safe = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};
export function csvOf(rows: UsageRow[], by: UsageBy): string {
  const head = [BY[by].one, 'Id', 'Tasks', 'Failed', 'Tokens in', 'Tokens out', 'Cost in USD'];
  const lines = rows.map((r) => [
    nameOf(r, by),
    r.key,
    r.tasks,
    r.failed,
    r.input_tokens,
    r.output_tokens,
    r.cost_usd,
  ]);
  return [head, ...lines].map((line) => line.map(cell).join(',') + '\r\n').join('');
}
