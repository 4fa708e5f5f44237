import { expect, test } from 'vitest';
import { passageTitle, passageUrl } from './passages';

const pdf = { id: 'file_1', name: 'Handbook.pdf', content_type: 'application/pdf' };
const text = { id: 'file_2', name: 'notes.txt', content_type: 'text/plain' };

test('a passage is named after its file and its part', () => {
  expect(passageTitle({ file: pdf, part: 12, label: 'page 12' })).toBe('Handbook.pdf, page 12');
  expect(passageTitle({ file: text, part: 1, label: 'notes.txt' })).toBe('notes.txt');
});
test('a PDF opens at the page', () => {
  expect(passageUrl({ file: pdf, part: 12, label: 'page 12' })).toBe('/v1/files/file_1#page=12');
  expect(passageUrl({ file: text, part: 2, label: 'lines 201–400' })).toBe('/v1/files/file_2');
});
