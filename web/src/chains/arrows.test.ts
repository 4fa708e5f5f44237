import { describe, expect, test } from 'vitest';
import corpus from '../../../tests/corpus/arrows.json?raw';
import { chainIn } from './arrows';

interface Case {
  text: string;
  links: [string, string][];
}
const AGENTS = ['coder', 'reviewer', 'tester'];

describe('the corpus of arrows', () => {
  test.each(JSON.parse(corpus) as Case[])('$text', ({ text, links }) => {
    expect(chainIn(text, (handle) => AGENTS.includes(handle))).toEqual(links.map(([handle]) => handle));
  });
});
test('long texts are read quickly', () => {
  expect(chainIn('-> @coder '.repeat(3000), () => true)).toHaveLength(3000);
  for (const part of ['](', '[', '`` ` ', '\\`', '> \n', '    \n'])
    expect(chainIn(`${part.repeat(5000)}\n\n@coder a -> @tester b`, () => true).length).toBeLessThan(3);
});
