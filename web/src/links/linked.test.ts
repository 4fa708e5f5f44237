import { expect, test } from 'vitest';
import { linkedMessages } from './linked';

const ORIGIN = 'https://chat.example.org';
const at = (text: string) => linkedMessages(text, ORIGIN);

test('links to messages are quoted if they stand alone on a line', () => {
  expect(at(`see\n${ORIGIN}/northwind/m/msg_1\nplease`)).toEqual(['msg_1']);
  expect(at(`<${ORIGIN}/northwind/m/msg_1>`)).toEqual(['msg_1']);
  expect(at(`${ORIGIN}/northwind/c/general/t/thread_1#m-msg_2`)).toEqual(['msg_2']);
  expect(at(`${ORIGIN}/northwind/c/general/t/thread_1?panel=dive:fork_1#d-msg_3`)).toEqual(['msg_3']);
  const lines = [1, 2, 2, 3, 4].map((n) => `${ORIGIN}/northwind/m/msg_${n}`);
  expect(at(lines.join('\n'))).toEqual(['msg_1', 'msg_2', 'msg_3']);
});

test('links in a sentence, in code, and to other servers are not', () => {
  expect(at(`see ${ORIGIN}/northwind/m/msg_1`)).toEqual([]);
  expect(at(`${ORIGIN}/northwind/m/msg_1 and more`)).toEqual([]);
  expect(at(`\`\`\`\n${ORIGIN}/northwind/m/msg_1\n\`\`\``)).toEqual([]);
  expect(at(`\`\`\`\n${ORIGIN}/northwind/m/msg_1`)).toEqual([]);
  expect(at('https://chat.example.org.evil.example/northwind/m/msg_1')).toEqual([]);
  expect(at(`${ORIGIN}/northwind/m/msg_1/../x`)).toEqual([]);
});

test('a hostile text takes no longer than its length', () => {
  const started = performance.now();
  at('`'.repeat(200_000));
  at(`${ORIGIN}/${'msg_'.repeat(50_000)}/`);
  at('```\n'.repeat(50_000));
  expect(performance.now() - started).toBeLessThan(1000);
});
