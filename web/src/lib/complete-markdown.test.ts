import { expect, test } from 'vitest';
import { completeMarkdown } from './complete-markdown';

test.each([
  ['a **bo', 'a **bo**'],
  ['a **bo*', 'a **bo**'],
  ['a `co', 'a `co`'],
  ['see [the docs](https://ex', 'see the docs'],
  ['see [the d', 'see the d'],
  ['x *', 'x '],
  ['plain', 'plain'],
  ['a **b** c', 'a **b** c'],
])('half marks in %j never flash', (a, b) => expect(completeMarkdown(a)).toBe(b));
