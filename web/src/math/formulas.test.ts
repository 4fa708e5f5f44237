// @vitest-environment happy-dom
import { expect, test } from 'vitest';
import { formulasIn } from './formulas';

const found = (text: string) => formulasIn(text).map(({ source, display }) => [source, display]);

test('formulas are found between their marks', () => {
  expect(found('so $$E = mc^2$$ and \\(a_1\\), then \\[\\frac{a}{b}\\]')).toEqual([
    ['E = mc^2', true],
    ['a_1', false],
    ['\\frac{a}{b}', true],
  ]);
  expect(found('$$\na \\$ b\n$$')).toEqual([['\na \\$ b\n', true]]);
  expect(found('\\(f\\left(x\\right)\\)')).toEqual([['f\\left(x\\right)', false]]);
});

test('a hostile text takes no longer than its length', () => {
  const started = performance.now();
  for (const text of [
    '\\('.repeat(100_000),
    '\\[x'.repeat(100_000),
    '$$a'.repeat(100_001),
    '\\(' + '\\\\'.repeat(100_000),
  ])
    formulasIn(text);
  expect(performance.now() - started).toBeLessThan(2000);
});

test('prices, empty marks, and marks without an end are text', () => {
  for (const text of ['$5 and $6', '$$', '$$$$', '\\(a', 'a\\)', '\\[ b'])
    expect(found(text), text).toEqual([]);
});
