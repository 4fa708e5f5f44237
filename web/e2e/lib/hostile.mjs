// The patterns of tests/corpus/hostile, repeated up to a given size.
import { readFileSync } from 'node:fs';

const patterns = JSON.parse(
  readFileSync(new URL('../../../tests/corpus/hostile/patterns.json', import.meta.url), 'utf8'),
);
export const hostile = (size) =>
  patterns.map(({ name, head = '', repeat, tail = '' }) => {
    const times = Math.floor((size - head.length - tail.length) / repeat.length);
    return { name, text: head + repeat.repeat(Math.max(1, times)) + tail };
  });
