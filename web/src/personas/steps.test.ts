import { expect, test } from 'vitest';
import { persona } from '../test/make-personas';
import { changes } from '../lib/merge';
import { fieldsOf, markOf } from './steps';

test('a step is marked by what it contains', () => {
  const of = (x: Parameters<typeof persona>[0], approved: string | null = null) => {
    const fields = fieldsOf(persona(x));
    return (['name', 'taste', 'compressed'] as const).map((step) => markOf(step, fields, approved));
  };
  expect(of({})).toEqual(['started', 'not started', 'not started']);
  expect(of({ description: 'For reviews', taste: { text: 'Dry', items: [] } })).toEqual([
    'done',
    'started',
    'not started',
  ]);
  expect(of({ taste: { text: 'Dry', items: ['Tables'] }, compressed: 'You are calm.' })).toEqual([
    'started',
    'done',
    'started',
  ]);
  expect(of({ compressed: 'You are calm.' }, 'You are calm.')[2]).toBe('done');
  expect(of({ compressed: 'You are brief.' }, 'You are calm.')[2]).toBe('started');
});

test('an avatar is chosen and removed', () => {
  const colored = fieldsOf(persona({ avatar: { color: '#2563eb' } }));
  expect(changes(fieldsOf(persona({})), colored)).toEqual({ avatar: { color: '#2563eb' } });
  expect(changes(colored, { ...colored, avatar: null })).toEqual({ avatar: null });
});

test('only changed fields are sent', () => {
  const before = fieldsOf(persona({}));
  expect(changes(before, { ...before })).toEqual({});
  const taste = { text: 'Dry', items: [] };
  expect(changes(before, { ...before, taste })).toEqual({ taste });
});
