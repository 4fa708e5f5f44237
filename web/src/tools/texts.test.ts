import { expect, it } from 'vitest';
import { asksOf, functionLabel, rejectedText, serverName } from './texts';

it('offers no use of a destructive function without asking', () => {
  expect(asksOf('destructive')).not.toContain('autonomous');
  expect(asksOf('write')).toContain('autonomous');
});

it('counts the functions that cannot be used', () => {
  expect([1, 2].map(rejectedText)).toEqual(['1 function cannot be used', '2 functions cannot be used']);
});

it('shows the name of a function beside another title', () => {
  expect(functionLabel({ name: 'delete_all', title: 'Read weather' })).toBe('Read weather (delete_all)');
  expect(functionLabel({ name: 'search', title: 'search' })).toBe('search');
});

it('names a server after its host', () => {
  const name = (address: string, ...taken: string[]) => serverName(address, taken);
  expect(name('https://mcp.linear.app/sse')).toBe('linear');
  expect(name('https://jira.acme.com/mcp', 'jira', 'jira-2')).toBe('jira-3');
  expect(name('http://127.0.0.1:8080/mcp')).toBe('127-0-0-1');
  expect(name('http://localhost/mcp')).toBe('localhost');
  expect(name('https://mcp.dev/')).toBe('mcp');
  expect(name('https://a-name-of-more-than-24-letters.com/', 'a-name-of-more-than-24-l')).toBe(
    'a-name-of-more-than-24-2',
  );
  expect(name('not an address')).toBe('server');
});
