import { expect, test } from 'vitest';
import { boxOf, kindOf, readable } from './format';
import { fileSizeText, sizeText } from './size-text';

test('sizes as text', () => {
  expect(
    [1, 999, 1024, 12_300, 1_048_576, 3_565_158, 25 * 1024 * 1024, 1_020_000, 12 * 1024 ** 3].map(sizeText),
  ).toEqual(['1 byte', '999 bytes', '1 KB', '12 KB', '1 MB', '3.4 MB', '25 MB', '996 KB', '12 GB']);
});
test('a file without bytes is called empty', () => {
  expect([0, 1, 2048].map(fileSizeText)).toEqual(['Empty file', '1 byte', '2 KB']);
});
test('only types that the server serves as pictures are pictures', () => {
  expect(
    ['image/png', 'image/svg+xml', 'text/plain; charset=utf-8', 'text/html', 'application/zip'].map(kindOf),
  ).toEqual(['image', 'other', 'text', 'other', 'archive']);
});
test('agents read text files that fit together', () => {
  const text = (size: number) => ({ type: 'text/plain', size });
  const files = [text(30_000), { type: 'image/png', size: 10 }, text(3_000), text(2_768), text(1)];
  expect(readable(files)).toEqual([true, false, false, true, false]);
});
const file = (x: object) => ({ id: 'file_1', content_type: 'image/png', width: null, height: null, ...x });
test('a picture’s box follows from its size, and is never larger than the picture', () => {
  expect(boxOf(file({ width: 1600, height: 1200 }))).toEqual({ w: 400, h: 300, flat: false });
  expect(boxOf(file({ width: 300, height: 3000 }))).toEqual({ w: 44, h: 300, flat: false });
  expect(boxOf(file({ width: 120, height: 80 }))).toEqual({ w: 120, h: 80, flat: false });
  expect(boxOf(file({ width: 1, height: 1 }))).toEqual({ w: 44, h: 44, flat: false });
  expect(boxOf(file({}))).toEqual({ w: 320, h: 200, flat: false });
  expect(boxOf(file({ content_type: 'application/pdf' })).flat).toBe(true);
  expect(boxOf(file({ id: '', width: 1600, height: 1200 })).flat).toBe(true); // uploading: one line
});
