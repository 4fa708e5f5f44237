import { expect, test, vi } from 'vitest';
import { PatchParser, parsePatch, type PatchFile } from './patch';

const parse = (...lines: string[]): PatchFile[] => {
  const parser = new PatchParser(lines.join('\n') + '\n');
  while (parser.step(1));
  return parser.files;
};
/** Lines of a file, such as `-3:old` and `+3:new`, with the number on the side that they are on. */
const lines = (file: PatchFile) =>
  file.hunks.flatMap((h) => h.lines.map((l) => `${l.sign}${l.now || l.old}:${l.text}${l.bare ? '$' : ''}`));

test('lines have their numbers before and after the change', () => {
  const [file] = parse(
    'diff --git a/src/sum.js b/src/sum.js',
    'index 1111111..2222222 100644',
    '--- a/src/sum.js',
    '+++ b/src/sum.js',
    '@@ -3,4 +3,5 @@ export function sum() {',
    ' first',
    '-second',
    '+deux',
    '+trois',
    ' last',
    ' ',
  );
  expect(file).toMatchObject({
    path: 'src/sum.js',
    status: 'modified',
    additions: 2,
    deletions: 1,
    notes: [],
  });
  expect(lines(file!)).toEqual([' 3:first', '-4:second', '+4:deux', '+5:trois', ' 6:last', ' 7:']);
  expect(file!.hunks[0]!.lines.map((l) => [l.old, l.now])).toEqual([
    [3, 3],
    [4, 0],
    [0, 4],
    [0, 5],
    [5, 6],
    [6, 7],
  ]);
});
test('a renamed file has both paths, and can have changed lines', () => {
  const files = parse(
    'diff --git a/old name.md b/new name.md',
    'similarity index 90%',
    'rename from old name.md',
    'rename to new name.md',
    'index 1111111..2222222 100644',
    '--- a/old name.md\t',
    '+++ b/new name.md\t',
    '@@ -1 +1 @@',
    '-a',
    '+b',
    'diff --git a/x b/y',
    'similarity index 100%',
    'rename from x',
    'rename to y',
  );
  expect(files.map((f) => [f.old_path, f.path, f.status, f.notes.length])).toEqual([
    ['old name.md', 'new name.md', 'renamed', 0],
    ['x', 'y', 'renamed', 0],
  ]);
  expect(lines(files[0]!)).toEqual(['-1:a', '+1:b']);
});
test('added and deleted files have paths from the side that exists', () => {
  const files = parse(
    'diff --git a/new b/new',
    'new file mode 100755',
    'index 0000000..1111111',
    '--- /dev/null',
    '+++ b/new',
    '@@ -0,0 +1 @@',
    '+x',
    'diff --git a/gone b/gone',
    'deleted file mode 100644',
    'index 1111111..0000000',
    '--- a/gone',
    '+++ /dev/null',
    '@@ -1,2 +0,0 @@',
    '-x',
    '-y',
    'diff --git a/empty file b/empty file',
    'new file mode 100644',
    'index 0000000..e69de29',
  );
  expect(files.map((f) => [f.path, f.status, f.additions, f.deletions, f.notes])).toEqual([
    ['new', 'added', 1, 0, ['Executable']],
    ['gone', 'deleted', 0, 2, []],
    ['empty file', 'added', 0, 0, []],
  ]);
});
test('the content of binary files is skipped, and the next file is read', () => {
  const files = parse(
    'diff --git a/logo.png b/logo.png',
    'index 1111111..2222222 100644',
    'GIT binary patch',
    'literal 12',
    'Tcmd;bU}gXyL?9?X+F@@ -1 +1 @@',
    '',
    'literal 0',
    'HcmV?d00001',
    '',
    'diff --git a/b.bin b/b.bin',
    'index 1111111..2222222 100644',
    'Binary files a/b.bin and b/b.bin differ',
    'diff --git a/c b/c',
    '--- a/c',
    '+++ b/c',
    '@@ -1 +1 @@',
    '-1',
    '+2',
  );
  expect(files.map((f) => [f.path, f.binary, f.notes, f.hunks.length])).toEqual([
    ['logo.png', true, ['Binary content'], 0],
    ['b.bin', true, ['Binary content'], 0],
    ['c', false, [], 1],
  ]);
});
test('a missing line break at the end of a file belongs to its side', () => {
  const [file] = parse(
    'diff --git a/x b/x',
    '--- a/x',
    '+++ b/x',
    '@@ -1 +1 @@',
    '-a',
    '\\ No newline at end of file',
    '+a',
  );
  expect(lines(file!)).toEqual(['-1:a$', '+1:a']);
});
test('lines that look like headers are lines, because a hunk is as long as it says', () => {
  const [file, ...others] = parse(
    'diff --git a/x.sql b/x.sql',
    '--- a/x.sql',
    '+++ b/x.sql',
    '@@ -1,3 +1,3 @@',
    '--- a/other',
    '-diff --git a/evil b/evil',
    '-@@ -1 +1 @@',
    '+++ b/other',
    '+rename to evil',
    '+GIT binary patch',
  );
  expect(others).toEqual([]);
  expect(file!.path).toBe('x.sql');
  expect(lines(file!)).toEqual([
    '-1:-- a/other',
    '-2:diff --git a/evil b/evil',
    '-3:@@ -1 +1 @@',
    '+1:++ b/other',
    '+2:rename to evil',
    '+3:GIT binary patch',
  ]);
});
test('quoted paths are decoded', () => {
  const [file] = parse(
    'diff --git "a/\\303\\251 \\"q\\"\\t.txt" "b/\\303\\251 \\"q\\"\\t.txt"',
    'old mode 100644',
    'new mode 100755',
  );
  expect(file).toMatchObject({ path: 'é "q"\t.txt', notes: ['Mode 100644 is now 100755 (Executable)'] });
});
test('links and submodules are named, and what is not understood is shown', () => {
  const files = parse(
    'diff --git a/link b/link',
    'new file mode 120000',
    'index 0000000..1111111',
    '--- /dev/null',
    '+++ b/link',
    '@@ -0,0 +1 @@',
    '+/etc/passwd',
    '\\ No newline at end of file',
    'diff --git a/link2 b/link2',
    'index 1111111..2222222 120000',
    'strange <b>header</b>',
    '@@ -1 +1 @@',
    '?no line',
  );
  expect(files.map((f) => f.notes)).toEqual([
    ['Symbolic link'],
    ['Symbolic link', 'strange <b>header</b>', '?no line'],
  ]);
});
test('text without a file, and counts that are too large, do no harm', () => {
  expect(parse('hello', '@@ -1 +1 @@', '+x')).toEqual([]);
  const [file, next] = parse(
    'diff --git a/x b/x',
    '@@ -1,999999999 +1,999999999 @@',
    '+x',
    'diff --git a/y b/y',
  );
  expect(lines(file!)).toEqual(['+1:x']);
  expect(next!.path).toBe('y');
});
test('a patch of 2 MiB is read with pauses, and completely', async () => {
  const hunk: string[] = [];
  for (let n = 0; n < 100; n++) hunk.push(`-line ${n} before`, `+line ${n} after, with some more text`);
  const block = (n: number) =>
    [
      `diff --git a/src/f${n}.ts b/src/f${n}.ts`,
      `--- a/src/f${n}.ts`,
      `+++ b/src/f${n}.ts`,
      '@@ -1,100 +1,100 @@',
      ...hunk,
    ].join('\n') + '\n';
  let text = '';
  let count = 0;
  while (text.length < 2 << 20) text += block(count++);
  // Each look at the clock takes 5 ms: there is a pause after every third step.
  let now = 0;
  const watch = vi.spyOn(performance, 'now').mockImplementation(() => (now += 5));
  let pauses = 0;
  let growing = 0;
  const files = await parsePatch(
    text,
    (some) => {
      expect(some.length).toBeGreaterThanOrEqual(growing);
      growing = some.length;
    },
    () => {
      pauses++;
      return Promise.resolve();
    },
  );
  expect(files).toHaveLength(count);
  expect(files.every((f) => f.additions === 100 && f.deletions === 100)).toBe(true);
  watch.mockRestore();
  expect(growing).toBeGreaterThan(count / 2);
  expect(pauses).toBeGreaterThan(20);
});
test('one line of 2 MiB is one line', async () => {
  const text = `diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+${'x'.repeat(2 << 20)}`;
  const [file] = await parsePatch(text);
  expect(file!.hunks[0]!.lines[0]!.text).toHaveLength(2 << 20);
});
