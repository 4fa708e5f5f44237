import { expect, test } from 'vitest';
import { importedText } from './imported';

test('a message of an archive names its source and day', () => {
  const at = '2021-05-03T12:00:00.000Z';
  expect(importedText(at, 'slack')).toBe('Imported from Slack, May 3, 2021');
  expect(importedText(at, 'openvibe')).toBe('Imported from OpenVibe, May 3, 2021');
  expect(importedText(at, 'chats')).toBe('Imported from an archive, May 3, 2021');
});
