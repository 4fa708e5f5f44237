import { expect, test } from 'vitest';
import { answerOf, fieldsOf, isComplete } from './schema-form';

const SCHEMA = {
  type: 'object',
  properties: {
    name: { type: 'string', title: 'Name', description: 'Of the table', minLength: 2, maxLength: 4 },
    mail: { type: 'string', format: 'email' },
    count: { type: 'integer', minimum: 1, maximum: 3, default: 2 },
    keep: { type: 'boolean', default: true },
    color: { type: 'string', oneOf: [{ const: 'r', title: 'Red' }, { const: 'g' }, { title: 'None' }] },
    old: { type: 'string', enum: ['a', 'b', 3], enumNames: ['First'] },
    tags: { type: 'array', items: { type: 'string', enum: ['x', 'y'] }, maxItems: 1 },
  },
  required: ['name', 'count', 'color'],
};
const fields = fieldsOf(SCHEMA)!;

test('a schema becomes fields, with options and limits', () => {
  expect(fields.map((f) => [f.name, f.label, f.kind, f.required])).toEqual([
    ['name', 'Name', 'text', true],
    ['mail', 'mail', 'text', false],
    ['count', 'count', 'number', true],
    ['keep', 'keep', 'boolean', false],
    ['color', 'color', 'choice', true],
    ['old', 'old', 'choice', false],
    ['tags', 'tags', 'choices', false],
  ]);
  expect(fields[0]).toMatchObject({ hint: 'Of the table', min: 2, max: 4, type: 'text' });
  expect(fields[1]).toMatchObject({ type: 'email' });
  expect(fields[2]).toMatchObject({ initial: '2', isWhole: true });
  expect(fields[4]!.options).toEqual([
    ['r', 'Red'],
    ['g', 'g'],
  ]);
  expect(fields[5]!.options).toEqual([
    ['a', 'First'],
    ['b', 'b'],
  ]);
});
test('the answer has the types of the schema, and leaves out what is blank', () => {
  const values = { name: 'abc', mail: '', count: '3', keep: false, color: 'r', old: '', tags: [] };
  expect(isComplete(fields, values)).toBe(true);
  expect(answerOf(fields, values)).toEqual({ name: 'abc', count: 3, keep: false, color: 'r' });
  expect(answerOf(fields, { ...values, tags: ['x'] })).toMatchObject({ tags: ['x'] });
});
test.each([
  [{ name: '' }],
  [{ name: 'a' }],
  [{ name: 'abcde' }],
  [{ count: '' }],
  [{ count: '1.5' }],
  [{ count: '4' }],
  [{ count: 'x' }],
  [{ color: '' }],
  [{ tags: ['x', 'y'] }],
])('%j does not fit', (wrong) => {
  const values = { name: 'abc', mail: '', count: '3', keep: true, color: 'r', old: '', tags: [] };
  expect(isComplete(fields, { ...values, ...wrong })).toBe(false);
});
test.each([
  null,
  [],
  { type: 'object' },
  { properties: { a: { type: 'object', properties: {} } } },
  { properties: { a: 'x' } },
  { properties: { a: { type: 'array', items: { type: 'string' } } } },
  { properties: Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`f${n}`, { type: 'string' }])) },
])('a form that cannot be shown is none: %#', (schema) => {
  expect(fieldsOf(schema)).toBeNull();
});
test('names from agents hide nothing', () => {
  const [field] = fieldsOf({ properties: { a: { type: 'string', title: 'x\u202Ey' } } })!;
  expect(field!.label).toBe('x\\u{202E}y');
});
test('a field called __proto__ is a field', () => {
  const odd = fieldsOf({ properties: JSON.parse('{"__proto__":{"type":"string"}}') as object })!;
  const values = Object.fromEntries([['__proto__', 'x']]);
  expect(Object.entries(answerOf(odd, values))).toEqual([['__proto__', 'x']]);
});
