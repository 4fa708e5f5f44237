import { expect, test } from 'vitest';
import { codeSession, step } from '../test/make-code';
import {
  checkText,
  ciText,
  linkOf,
  pathText,
  runningText,
  shown,
  stepTitle,
  waitingText,
  workText,
} from './words';

test('a summary names the agent, the repository, the branch, and the size', () => {
  expect(workText('Coder', 'api', codeSession())).toBe(
    'Coder worked in api on branch vibe/123: 1 file, +24 −9',
  );
});
test.each([
  [{ state: 'passed', ms: 41_200 }, 'Tests passed, 41 s'],
  [{ state: 'passed', ms: 61_000 }, 'Tests passed, 1 min 1 s'],
  [{ state: 'failed', ms: 900 }, 'Tests failed'],
  [{ state: 'none', ms: 0 }, 'No check'],
  [null, 'No check'],
] as const)('the check %j is "%s"', (check, text) => {
  expect(checkText(check)).toBe(text);
});
test('a running command is named with its time', () => {
  expect(runningText(step({ title: '`npm test`', kind: 'execute' }), 12_900)).toBe('Running npm test · 12 s');
  expect(runningText(step({ title: 'Running tests', kind: 'execute' }), 0)).toBe('Running tests · 0 s');
  expect(runningText(step({ title: 'Read src/sum.js', kind: 'read' }), -5)).toBe('Read src/sum.js · 0 s');
});
test('names from outside stay on one line, and hide nothing', () => {
  expect(shown('a\u202Eb\nc')).toBe('a\\u{202E}b c');
  expect(shown('x'.repeat(100))).toBe(`${'x'.repeat(60)}…`);
  expect(stepTitle(step({ title: '\u200B' }))).toBe('\\u{200B}');
  expect(stepTitle(step({ title: '' }))).toBe('A step');
});
test('a path hides neither spaces nor line breaks, and its end counts', () => {
  expect(pathText('a  b\n\u202Ec')).toBe('a  b\\u{A}\\u{202E}c');
  expect(pathText('folder/name.js', 7)).toBe('…name.js');
});
test('a task waits for a runner, behind others', () => {
  expect(waitingText('build-1', 2)).toBe('Waiting for build-1 · 2 ahead');
  expect(waitingText(undefined)).toBe('Waiting for a runner');
});
test.each([
  ['.github/workflows/test.yml', true],
  ['.GitHub/Workflows/x.yml', true],
  ['services/.gitlab-ci.yml', true],
  ['Jenkinsfile', true],
  ['src/.github.md', false],
  ['docs/github/workflows/a.md', false],
])('%s runs in CI: %s', (path, runs) => {
  expect(ciText(codeSession({}, { path }))).toBe(runs ? `Changes what runs in CI: ${path}` : '');
});
test('a file that leaves CI counts, and so do files that are not listed', () => {
  const moved = codeSession({}, { path: 'a.yml', old_path: '.github/workflows/a.yml' });
  expect(ciText(moved)).toBe('Changes what runs in CI: .github/workflows/a.yml');
  expect(ciText(codeSession({ file_count: 301 }))).toMatch(/^Can change what runs in CI/);
});
test('only pages are links', () => {
  expect(linkOf('https://git.example/pr/7')).toBe('https://git.example/pr/7');
  for (const url of ['javascript:alert(1)', 'data:text/html,x', 'pr/7', '', null])
    expect(linkOf(url)).toBeNull();
});
