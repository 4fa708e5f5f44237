import { expect, it } from 'vitest';
import { approvalsOf, functionLabel, visible } from './texts';

it('offers no approval-free use of a destructive function', () => {
  expect(approvalsOf('destructive')).not.toContain('autonomous');
  expect(approvalsOf('write')).toContain('autonomous');
});

it('shows the name of a function beside another title', () => {
  expect(functionLabel({ name: 'delete_all', title: 'Read weather' })).toBe('Read weather (delete_all)');
  expect(functionLabel({ name: 'search', title: 'search' })).toBe('search');
});

it('shows invisible characters', () => {
  const hidden = 'a\u{200B}b\u{202E}c\u{E0041}\u{E0000}d\u{3164}e\u{FE0F}f\u{2028}';
  expect(visible(hidden)).toBe(String.raw`a\u{200B}b\u{202E}c\u{E0041}\u{E0000}d\u{3164}e\u{FE0F}f\u{2028}`);
  expect(visible('größe 名前 🙂\n\ttext')).toBe('größe 名前 🙂\n\ttext');
});
