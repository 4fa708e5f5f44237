import { describe, expect, test } from 'vitest';
import corpus from '../../../tests/corpus/arrows.json?raw';
import { chainIn, unorderedIn } from './arrows';

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

describe('two agents that would start at once', () => {
  const chainOf = (text: string) => unorderedIn(text, (handle) => AGENTS.includes(handle))?.chain ?? null;

  test.each([
    ['@coder write it, then @reviewer review it', '@coder write it → @reviewer review it'],
    ['@coder write it. After that, @tester test it', '@coder write it → @tester test it'],
    ['@coder write it and @reviewer review it', '@coder write it → @reviewer review it'],
    ['@coder schreib es, und dann @tester', '@coder schreib es → @tester'],
    ['@coder écris-le, puis @tester teste-le', '@coder écris-le → @tester teste-le'],
    ['@coder escríbelo y luego @tester', '@coder escríbelo → @tester'],
  ])('become a chain if the words ask for an order: %s', (text, chain) => {
    expect(chainOf(text)).toBe(chain);
    expect(chainIn(chain, (handle) => AGENTS.includes(handle))).toHaveLength(2);
  });
  test.each([
    '@coder @tester what do you think?',
    '@coder ask @reviewer',
    '@coder write it, then tell @ada',
    '@coder write it, then @coder test it',
    '@coder a, then @reviewer b, then @tester c',
    '@coder write it → @reviewer then review it',
    '@coder run `then @reviewer`',
  ])('stay as they are otherwise: %s', (text) => {
    expect(chainOf(text)).toBeNull();
  });
});
