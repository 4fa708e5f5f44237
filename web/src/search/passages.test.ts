import { expect, test } from 'vitest';
import { passageTitle } from './passages';

test('a passage is named after its file and its part', () => {
  const pdf = { id: 'file_1', name: 'Handbook.pdf', content_type: 'application/pdf' };
  const text = { id: 'file_2', name: 'notes.txt', content_type: 'text/plain' };
  expect(passageTitle({ file: pdf, label: 'page 12' })).toBe('Handbook.pdf, page 12');
  expect(passageTitle({ file: text, label: 'notes.txt' })).toBe('notes.txt');
});
