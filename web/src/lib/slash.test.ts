import { expect, test } from 'vitest';
import { isEscaped, parseSlash, slashTyping, unescaped } from './slash';

test.each([
  ['/', { name: 'list' }],
  ['/ ', { name: 'list' }],
  ['/agent', { name: 'agent', query: '' }],
  ['/agent ', { name: 'agent', query: '' }],
  ['/agent co', { name: 'agent', query: 'co' }],
  ['/Agent  Code Helper ', { name: 'agent', query: 'Code Helper' }],
  ['/agent @coder', { name: 'agent', query: 'coder' }],
  ['/agent none', { name: 'agent', query: 'none' }],
  ['/agent coder please look', { name: 'agent', query: 'coder please look' }],
  ['/new', { name: 'new', text: '' }],
  ['/new  The fair:\nwho goes? ', { name: 'new', text: 'The fair:\nwho goes?' }],
  ['/NEW\nThe fair', { name: 'new', text: 'The fair' }],
  ['/run', { name: 'run', query: '', input: '' }],
  ['/run review', { name: 'run', query: 'review', input: '' }],
  ['/Run review  the launch\nplan ', { name: 'run', query: 'review', input: 'the launch\nplan' }],
])('%j is a command', (text, slash) => expect(parseSlash(text)).toEqual(slash));

test.each([
  'hello',
  ' /agent coder',
  'see /agent',
  '/agents',
  '/newest',
  '/running',
  '/shrug',
  '/etc/hosts',
  '/agent/coder',
  '/new-thread',
  '//agent',
  '\\/agent',
  '// a comment',
  '1/2',
  '\n/new',
])('%j is a message', (text) => expect(parseSlash(text)).toBeNull());

const ofBots = new Set(['deploy', 'new-ticket', '5']);
test.each([
  ['/deploy', { name: 'bot', command: 'deploy', text: '' }],
  ['/Deploy  web now\nplease ', { name: 'bot', command: 'deploy', text: 'web now\nplease' }],
  ['/new-ticket printer', { name: 'bot', command: 'new-ticket', text: 'printer' }],
  ['/5', { name: 'bot', command: '5', text: '' }],
  ['/shrug', { name: 'unknown', command: 'shrug' }],
  ['/deplyo web', { name: 'unknown', command: 'deplyo' }],
  ['/new ticket', { name: 'new', text: 'ticket' }],
  ['/', { name: 'list' }],
])('%j is a command where bots have some', (text, slash) => expect(parseSlash(text, ofBots)).toEqual(slash));
test.each(['/etc/hosts', '/shrug, as they say', '//deploy web', 'see /deploy', ' /deploy'])(
  '%j is a message even where bots have commands',
  (text) => expect(parseSlash(text, ofBots)).toBeNull(),
);

test.each([
  ['//agent coder', '/agent coder'],
  ['\\/agent coder', '/agent coder'],
  ['//new\nline', '/new\nline'],
  ['//shrug', '/shrug'],
  ['//', '/'],
  ['\\/', '/'],
])('%j is escaped', (text, message) => {
  expect(isEscaped(text)).toBe(true);
  expect(unescaped(text)).toBe(message);
  expect(parseSlash(text)).toBeNull();
});
test.each([
  'hello',
  '/shrug',
  '// a comment',
  '//cdn.example.com/x',
  '///agent',
  '\\agent',
  'a //new',
  '//5',
])('%j stays as it is', (text) => {
  expect(isEscaped(text)).toBe(false);
  expect(unescaped(text)).toBe(text);
});

test.each([
  ['/', 1, 'command', ''],
  ['/a', 2, 'command', 'a'],
  ['/NE', 3, 'command', 'ne'],
  ['/new-ti', 7, 'command', 'new-ti'],
  ['/ag the draft', 3, 'command', 'ag'],
  ['/agent', 6, 'agent', ''],
  ['/agent ', 7, 'agent', ''],
  ['/agent Co', 9, 'agent', 'co'],
  ['/agent @co', 10, 'agent', 'co'],
  ['/run', 4, 'command', 'run'],
  ['/run ', 5, 'run', ''],
  ['/run Rev', 8, 'run', 'rev'],
  ['/run rev the plan', 8, 'run', 'rev'],
])('%j offers the %s', (text, caret, of, query) => expect(slashTyping(text, caret)).toEqual({ of, query }));
test.each([
  ['/new', 4],
  ['/new The fair', 13],
  ['/shrug/', 7],
  ['/a', 0],
  ['/run review ', 12],
  ['/run review', 7],
  ['/agent', 2],
  ['/agent co', 3],
  ['/agent co\nmore', 9],
  ['//agent', 7],
  ['a /agent', 8],
])('%j offers nothing', (text, caret) => expect(slashTyping(text, caret)).toBeNull());
