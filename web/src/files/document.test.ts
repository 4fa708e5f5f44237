import { expect, test } from 'vitest';
import { documentText, pictureText } from './document';

test('a picture that the model cannot see should be described', () => {
  expect(pictureText(true, 'image/png')).toBe('Agents can see it');
  expect(pictureText(false, 'image/webp')).toContain('describe it');
  expect(pictureText(null, 'image/svg+xml')).toBeNull();
  expect(pictureText(false, 'text/plain')).toBeNull();
});

test('the state of the text of a file is described', () => {
  const pdf = 'application/pdf';
  expect(documentText({ state: 'waiting', reason: null, parts: 0 }, pdf)).toBe('Reading…');
  expect(documentText({ state: 'ready', reason: null, parts: 12 }, pdf)).toBe(
    'Agents can read it (12 pages)',
  );
  expect(documentText({ state: 'ready', reason: null, parts: 1 }, pdf)).toBe('Agents can read it (1 page)');
  expect(documentText({ state: 'ready', reason: null, parts: 3 }, 'text/plain')).toBe('Agents can read it');
  expect(documentText({ state: 'failed', reason: 'scanned', parts: 2 }, pdf)).toContain('ocrmypdf');
  expect(documentText({ state: 'failed', reason: 'encrypted', parts: 0 }, pdf)).toBe(
    'Locked with a password',
  );
  expect(documentText({ state: 'none', reason: null, parts: 0 }, 'application/zip')).toContain(
    'not readable',
  );
});
