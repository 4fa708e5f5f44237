import { expect, it } from 'vitest';
import { approvalsOf, functionLabel, rejectedText } from './texts';

it('offers no approval-free use of a destructive function', () => {
  expect(approvalsOf('destructive')).not.toContain('autonomous');
  expect(approvalsOf('write')).toContain('autonomous');
});

it('counts the functions that cannot be used', () => {
  expect([1, 2].map(rejectedText)).toEqual(['1 function cannot be used', '2 functions cannot be used']);
});

it('shows the name of a function beside another title', () => {
  expect(functionLabel({ name: 'delete_all', title: 'Read weather' })).toBe('Read weather (delete_all)');
  expect(functionLabel({ name: 'search', title: 'search' })).toBe('search');
});
