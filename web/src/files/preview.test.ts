import { expect, test } from 'vitest';
import { FilesApi } from '../api/files';
import { Transport } from '../api/http';
import { previewOf } from './preview';

const bytes = (text: string) => new TextEncoder().encode(text);
const whole = (name: string, text: string) => previewOf(name, bytes(text), bytes(text).length);

test('a text that fits is shown whole', () => {
  expect(whole('notes.md', '# Plan\n<b>x</b>')).toEqual({ text: '# Plan\n<b>x</b>', rows: null, cut: false });
});
test('a longer one ends with its last whole line, never with half a character', () => {
  expect(previewOf('a.txt', bytes('one\ntwo\nthr'), 100)).toMatchObject({ text: 'one\ntwo\n', cut: true });
  expect(previewOf('a.txt', bytes('käse').subarray(0, 2), 100)).toMatchObject({ text: 'k', cut: true });
});
test('values separated by commas, semicolons, or tabs are a table; quotes hold separators and line breaks', () => {
  expect(whole('a.csv', 'a,b\r\n"x, ""y""\nz",2\n\n').rows).toEqual([
    ['a', 'b'],
    ['x, "y"\nz', '2'],
  ]);
  expect(whole('a.CSV', 'a;b\n1;2').rows).toEqual([
    ['a', 'b'],
    ['1', '2'],
  ]);
  expect(whole('a.tsv', 'a\tb,c').rows).toEqual([['a', 'b,c']]);
  expect(whole('a.csv', 'only\none column').rows).toBeNull();
  expect(whole('a.txt', 'a,b').rows).toBeNull();
});
test('a table has at most 500 rows and 50 columns', () => {
  const { rows, cut } = whole('a.csv', `${'1,2\n'.repeat(600)}`);
  expect([rows!.length, cut]).toEqual([500, true]);
  const wide = whole('a.csv', 'x,'.repeat(60));
  expect([wide.rows![0]!.length, wide.cut]).toEqual([50, true]);
});
test('only the beginning is read, also if the range is ignored', async () => {
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    pull: (c) => c.enqueue(bytes('abcdef')),
    cancel: () => void (cancelled = true),
  });
  let asked: unknown;
  const fetch = (request: Request) => {
    asked = request.headers.get('range');
    return Promise.resolve(new Response(body));
  };
  const api = new FilesApi(new Transport({ fetch, base: 'http://x' }));
  expect(new TextDecoder().decode(await api.head('file_1', 10))).toBe('abcdefabcd');
  expect(asked).toBe('bytes=0-9');
  expect(cancelled).toBe(true);
});
