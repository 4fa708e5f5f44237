import { expect, test } from 'vitest';
import { mend } from './mend';

test.each([
  ['a **bo', 'a **bo**'],
  ['a **bo*', 'a **bo**'],
  ['a `co', 'a `co`'],
  ['see [the docs](https://ex', 'see the docs'],
  ['see [the d', 'see the d'],
  ['x *', 'x '],
  ['plain', 'plain'],
  ['a **b** c', 'a **b** c'],
])('half marks in %j never flash', (a, b) => expect(mend(a)).toBe(b));
