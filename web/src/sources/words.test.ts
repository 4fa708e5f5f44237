import { expect, test } from 'vitest';
import { fileText, sourceText } from './words';

const ops = { kind: 'public', name: 'ops' } as const;
const now = new Date('2026-11-02T12:00:00');

test('a source has its author, its channel, and its date', () => {
  const message = { author: 'Ada', at: '2026-05-03T12:00:00' };
  expect(sourceText(ops, message, now)).toBe('Ada in #ops, May 3');
  expect(sourceText({ kind: 'direct', name: null }, message, now)).toBe('Ada in a direct message, May 3');
});
test('the date has the year unless it is this year', () => {
  expect(sourceText(ops, { author: 'Ada', at: '2025-12-31T12:00:00' }, now)).toBe(
    'Ada in #ops, December 31, 2025',
  );
});
test('as long as the message is not known, its channel is', () => {
  expect(sourceText(ops)).toBe('#ops');
  expect(sourceText({ kind: 'direct', name: null })).toBe('A direct message');
});

test('a passage is named after its file and its part', () => {
  const files = [{ id: 'file_1', name: 'Handbook.pdf' }];
  expect(fileText({ file_id: 'file_1', label: 'page 12' }, files)).toBe('Handbook.pdf, page 12');
  expect(fileText({ file_id: 'file_1', label: 'Handbook.pdf' }, files)).toBe('Handbook.pdf');
  expect(fileText({}, files)).toBeNull();
  expect(fileText({ file_id: 'file_1', label: 'page 12' })).toBeNull();
});
