import { expect, test } from 'vitest';
import { codePasted, continueList, isCode, linkSelection, toggleMark, type TextEdit } from './markup';

/**
 * Applies an edit to a text in which `|` marks both ends of the selection; returns the result in the same
 * form.
 */
const run = (marked: string, edit: (text: string, a: number, b: number) => TextEdit | null) => {
  const a = marked.indexOf('|');
  const last = marked.lastIndexOf('|');
  const text = marked.replaceAll('|', '');
  const b = last > a ? last - 1 : a;
  const e = edit(text, a, b);
  if (!e) return null;
  const out = text.slice(0, e.from) + e.insert + text.slice(e.to);
  return e.start === e.end
    ? `${out.slice(0, e.start)}|${out.slice(e.start)}`
    : `${out.slice(0, e.start)}|${out.slice(e.start, e.end)}|${out.slice(e.end)}`;
};
const mark = (key: string) => (t: string, a: number, b: number) => toggleMark(t, a, b, key);

test.each([
  ['b', 'ship |now| please', 'ship **|now|** please'],
  ['i', '|now|', '_|now|_'],
  ['e', 'run |make|', 'run `|make|`'],
  ['b', 'ship **|now|** please', 'ship |now| please'],
  ['b', 'ship |**now**| please', 'ship |now| please'],
  ['b', 'ship |', 'ship **|**'],
])('Ctrl-%s turns %j into %j', (key, before, after) => expect(run(before, mark(key))).toBe(after));

test('other keys mark nothing', () => expect(toggleMark('x', 0, 1, 'u')).toBeNull());

test.each([
  ['- one|', '- one\n- |'],
  ['9. nine|', '9. nine\n10. |'],
  ['  * deep|', '  * deep\n  * |'],
  ['- [x] done|', '- [x] done\n- [ ] |'],
  ['- one|two', '- one\n- |two'],
  ['- one\n- |', '- one\n|'],
])('a new line turns %j into %j', (before, after) => expect(run(before, continueList)).toBe(after));

test.each(['no list|', '-none|', '- |text', '|- one|'])('a new line in %j is a plain one', (text) =>
  expect(run(text, continueList)).toBeNull(),
);

test('a URL over a selection makes a link; other pastes do not', () => {
  const paste = (p: string) => (t: string, a: number, b: number) => linkSelection(t, a, b, p);
  expect(run('see |the plan| today', paste('https://example.com/a'))).toBe(
    'see [the plan](https://example.com/a)| today',
  );
  expect(run('|it|', paste('https://example.com/a_(b)'))).toBe('[it](https://example.com/a_%28b%29)|');
  expect(run('see |the plan|', paste('two words'))).toBeNull();
  expect(run('see |', paste('https://example.com'))).toBeNull();
  expect(run('|https://old.example|', paste('https://new.example'))).toBeNull();
  expect(run('|javascript|', paste('javascript:alert(1)'))).toBeNull();
});

test.each([
  ['see |the plan| today', 'see [the plan](|) today'],
  ['|a [b]|', '[a \\[b\\]](|)'],
  ['|https://example.com|', '[|](https://example.com)'],
])('Ctrl-K turns %j into %j', (before, after) => expect(run(before, mark('k'))).toBe(after));

test.each(['see |', 'see | |', '|one\n\ntwo|'])('Ctrl-K in %j opens the switcher', (text) =>
  expect(run(text, mark('k'))).toBeNull(),
);

test.each([
  'fn main() {\n    run();\n}',
  'def f(x):\n    y = x + 1\n    return y',
  'const a = 1;\nconst b = 2;\nconst c = 3;',
  '<ul>\n  <li>one</li>\n</ul>',
  'Error: no\n    at run (a.js:1:2)\n    at main (a.js:3:4)',
])('%j is code', (text) => expect(isCode(text)).toBe(true));

test.each([
  'let x = 1;\nlet y = 2;',
  'Hello,\nwe meet on Friday.\nBring the plan.\nBo',
  '- one\n  - two\n  - three',
  '1. Buy milk\n2. Call Bo\n3. Sleep',
  '```\nfn main() {\n}\n```',
])('%j is not pasted as code', (text) => expect(isCode(text)).toBe(false));

test('pasted code becomes a block on its own lines, with a fence that it does not contain', () => {
  const paste = (code: string) => (text: string, at: number) => codePasted(text, at, code);
  expect(run('look: a;\nb;|', paste('a;\nb;'))).toBe('look: \n```\na;\nb;\n```\n|');
  expect(run('a```b\n|', paste('a```b\n'))).toBe('````\na```b\n````\n|');
  expect(run('a;\nc;|', paste('a;\nb;'))).toBeNull();
  expect(run('```\na;\nb;|', paste('a;\nb;'))).toBeNull();
});
