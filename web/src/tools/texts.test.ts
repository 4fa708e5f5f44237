import { expect, it } from 'vitest';
import { approvalsOf, functionLabel } from './texts';

it('offers no approval-free use of a destructive function', () => {
  expect(approvalsOf('destructive')).not.toContain('autonomous');
  expect(approvalsOf('write')).toContain('autonomous');
});

it('shows the name of a function beside another title', () => {
  expect(functionLabel({ name: 'delete_all', title: 'Read weather' })).toBe('Read weather (delete_all)');
  expect(functionLabel({ name: 'search', title: 'search' })).toBe('search');
});
