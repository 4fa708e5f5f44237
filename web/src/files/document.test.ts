import { expect, test } from 'vitest';
import { documentText, pictureText, type Readability, type ReadDocument } from './document';

test('a picture that the model cannot see should be described', () => {
  expect(pictureText(true, 'image/png')).toBe('Agents can see it');
  expect(pictureText(false, 'image/webp')).toContain('describe it');
  expect(pictureText(null, 'image/svg+xml')).toBeNull();
  expect(pictureText(false, 'text/plain')).toBeNull();
});

const PDF = 'application/pdf';
const textOf = (change: Partial<ReadDocument>, rest: Partial<Readability> = {}, type = PDF) => {
  const document: ReadDocument = { state: 'ready', reason: null, parts: 12, ...change };
  return documentText({ document, fits: true, unread: [], ...rest }, type, 'Vibe');
};
test('a file that is read has its pages, and the parts that fit', () => {
  expect(textOf({ state: 'waiting', parts: 0 })).toBe('Reading…');
  expect(textOf({})).toBe('Vibe reads this file (12 pages)');
  expect(textOf({ parts: 1 })).toBe('Vibe reads this file (1 page)');
  expect(textOf({}, {}, 'text/plain')).toBe('Vibe reads this file');
  expect(textOf({ parts: 80 }, { fits: false })).toBe('Vibe reads the parts that fit (80 pages)');
  expect(textOf({ state: 'partial', reason: 'too_large' })).toBe('Vibe reads the parts that fit (12 pages)');
});
test('what could not be read is named', () => {
  expect(textOf({ state: 'failed', reason: 'scanned' })).toBe(
    'This PDF is a scan: Vibe cannot read it. Run ocrmypdf on it and attach the result.',
  );
  expect(textOf({ state: 'failed', reason: 'encrypted' })).toBe('Locked with a password');
  expect(textOf({ state: 'partial', reason: 'scanned' }, { unread: [3, 7] })).toBe(
    'Pages 3, 7 could not be read',
  );
  expect(textOf({ state: 'partial', reason: 'scanned' }, { unread: [3] })).toBe('Page 3 could not be read');
  expect(textOf({ state: 'none', parts: 0 }, {}, 'application/zip')).toContain('not readable');
});
