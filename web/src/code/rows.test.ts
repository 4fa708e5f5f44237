import { expect, test } from 'vitest';
import { PatchParser } from './patch';
import { anchorOf, rowsOf, withComments, type Layout, type Row } from './rows';

const parser = new PatchParser(
  [
    'diff --git a/a b/a',
    '--- a/a',
    '+++ b/a',
    '@@ -1,5 +1,5 @@',
    ' one',
    '-two',
    '-three',
    '+deux',
    ' four',
    '+five',
    '-six',
  ].join('\n'),
);
parser.step(100);
const rows = (layout: Layout) => rowsOf(parser.files[0]!, 0, layout);
const texts = (all: Row[]) =>
  all.map((row) => {
    if (row.kind === 'line') return `${row.old?.text ?? ''}|${row.now?.text ?? ''}`;
    return row.kind === 'comment' ? `comment ${row.anchor.side} ${row.anchor.line}` : row.kind;
  });

test('in one column, each line has its own row', () => {
  expect(texts(rows('unified'))).toEqual([
    'file',
    'text',
    'one|one',
    'two|',
    'three|',
    '|deux',
    'four|four',
    '|five',
    'six|',
  ]);
});
test('in two columns, a line is beside the one that it replaces', () => {
  expect(texts(rows('split'))).toEqual([
    'file',
    'text',
    'one|one',
    'two|deux',
    'three|',
    'four|four',
    '|five',
    'six|',
  ]);
});
test('every row has its own key', () => {
  const keys = [...rows('split'), ...rowsOf(parser.files[0]!, 1, 'split')].map((r) => r.key);
  expect(new Set(keys).size).toBe(keys.length);
});
test('comments are below their lines, on the side that they are about', () => {
  const all = withComments(rows('split'), [
    { path: 'a', side: 'new', line: 2 },
    { path: 'a', side: 'old', line: 2 },
    { path: 'a', side: 'old', line: 1 },
    { path: 'b', side: 'new', line: 1 },
  ]);
  expect(texts(all)).toEqual([
    'file',
    'text',
    'one|one',
    'two|deux',
    'comment old 2',
    'comment new 2',
    'three|',
    'four|four',
    '|five',
    'six|',
  ]);
});
test('a line that a hostile patch has twice has its comment once', () => {
  const twice = [...rows('unified'), ...rowsOf(parser.files[0]!, 1, 'unified')];
  const all = withComments(twice, [{ path: 'a', side: 'new', line: 1 }]);
  expect(all.filter((row) => row.kind === 'comment')).toHaveLength(1);
});
test('a line that stays is commented on its new side', () => {
  const [line] = rows('unified').filter((row) => row.kind === 'line');
  expect(anchorOf(line!, 'old')).toBeNull();
  expect(anchorOf(line!, 'new')).toEqual({ path: 'a', side: 'new', line: 1 });
});
