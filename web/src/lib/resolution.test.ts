import { expect, test } from 'vitest';
import { action, result } from '../test/make-results';
import {
  changedFields,
  editOf,
  fieldsOf,
  merge,
  NOTHING,
  problems,
  sourceNumbers,
  tooLong,
} from './resolution';
import { diff } from './resolution-diff';
import { dueGroup, dueText } from './resolution-due';
import { fallbackText } from './resolution-text';

const nobody = (user: string | null, name: string | null) => user ?? name ?? 'no owner';
const edit = (x: Parameters<typeof result>[0] = {}) => editOf(fieldsOf(result(x)));

test('converting to fields and back gives the same result', () => {
  const { headline, key_points, action_items } = result();
  expect(edit()).toMatchObject({ headline, key_points, action_items });
});
test('lengths are UTF-16 units', () => {
  expect(tooLong(edit({ headline: '🙂'.repeat(60) }))).toEqual([]);
  expect(problems(edit({ headline: '🙂'.repeat(61) }))).toEqual(['Headline is 2 over the limit']);
});
test('a line that moved keeps its key', () => {
  const before = fieldsOf(result());
  const { key_points } = result();
  const after = fieldsOf(result({ key_points: key_points.toReversed() }), before);
  expect(after.key_points.map((e) => e.key)).toEqual(before.key_points.map((e) => e.key).reverse());
});
test('an ID alone is not a change', () => {
  expect(changedFields(edit(), edit({ action_items: [action({ id: 'item_9' })] }))).toEqual([]);
  expect(changedFields(NOTHING, edit())).toEqual(['headline', 'conclusion', 'key_points', 'action_items']);
});
test('merging takes both sides, and names the fields that conflict', () => {
  const base = edit();
  const { merged, clashes } = merge(
    base,
    edit({ headline: 'Mine', conclusion: 'Same' }),
    edit({ headline: 'Theirs', conclusion: 'Same', open_questions: [{ text: 'Why?', sources: [] }] }),
  );
  expect(clashes).toEqual(['headline']);
  expect(merged).toMatchObject({ headline: 'Mine', open_questions: [{ text: 'Why?' }] });
});
test('sources are numbered in reading order', () => {
  expect([...sourceNumbers(result())]).toEqual([
    ['msg_1', 1],
    ['msg_2', 2],
  ]);
});

test('the diff of two versions, in fields and lines', () => {
  const a = result({ open_questions: [{ text: 'Who tells the press?', sources: [] }] });
  const b = result({
    headline: 'Launch on Tuesday',
    key_points: [
      { text: 'Nobody deploys on a Friday', sources: [] },
      { text: 'The fair is on a Wednesday', sources: [] },
      { text: 'Support is back then', sources: [] },
    ],
    action_items: [action({ owner_id: 'Bo', due: '2026-02-01' })],
  });
  expect(diff(a, b, nobody)).toMatchObject([
    {
      name: 'headline',
      changes: [{ kind: 'changed', before: 'Launch on Monday', after: 'Launch on Tuesday' }],
    },
    {
      name: 'key_points',
      kept: 1,
      changes: [
        { kind: 'changed', after: 'The fair is on a Wednesday' },
        { kind: 'added', before: null },
      ],
    },
    {
      name: 'action_items',
      changes: [{ kind: 'changed', notes: ['Owner: Bo, was no owner', 'Due: 2026-02-01, was no date'] }],
    },
    { name: 'open_questions', changes: [{ kind: 'removed', after: null }] },
  ]);
  expect(diff(a, a, nobody)).toEqual([]);
});

test('due dates as text and groups, in the local time zone', () => {
  const friday = new Date(2026, 0, 9, 23, 30);
  const of = (due: string) => [dueGroup(due, friday), dueText(due, false, friday)];
  expect(of('2026-01-08')).toEqual(['overdue', 'Overdue since 8 Jan']);
  expect(of('2026-01-09')).toEqual(['week', 'Due today']);
  expect(of('2026-01-10')).toEqual(['week', 'Due tomorrow']);
  expect(of('2026-01-11')).toEqual(['week', 'Due Sunday']);
  expect(of('2026-01-12')).toEqual(['later', 'Due Monday']);
  expect(of('2027-01-12')).toEqual(['later', 'Due 12 Jan 2027']);
  expect(dueGroup(null)).toBe('none');
  expect(dueText('2026-01-01', true, friday)).toBe('Due 1 Jan');
});
test('a draft without the model names the failure of the model', () => {
  expect(fallbackText(null)).toBe('Drafted without a model');
  expect(fallbackText('timeout')).toBe(
    'Drafted without the model because the AI service did not answer in time',
  );
  expect(fallbackText('worker_lost')).toBe(
    'Drafted without the model because the model call was interrupted',
  );
});
