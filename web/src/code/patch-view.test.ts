import { expect, test } from 'vitest';
import { codeSession } from '../test/make-code';
import { PatchView } from './patch-view.svelte';

const file = (path: string, hash: string, line: string) =>
  [
    `diff --git a/${path} b/${path}`,
    `index 0..${hash} 100644`,
    `--- a/${path}`,
    `+++ b/${path}`,
    '@@ -1 +1 @@',
    '-old',
    `+${line}`,
  ].join('\n') + '\n';
const NOW = file('a', 'a1', 'one') + file('b', 'b2', 'two');
const PUSHED = file('a', 'a1', 'one') + file('b', 'b1', 'too') + file('c', 'c1', 'three');
const pause = () => Promise.resolve();
const pushed = { commit: 'c', url: null, by: 'user_bo', at: '2026-01-05T09:00:00.000Z', tree: 't0' };
const api = { patch: (_: string, tree?: string) => Promise.resolve(tree === 't0' ? PUSHED : NOW) };
const paths = (view: PatchView) => view.files.map((f) => f.path);

test('all changes are shown, and can be arranged in two columns', async () => {
  const view = new PatchView(api, pause);
  await view.load(codeSession(), 'all', 'unified');
  expect(view).toMatchObject({ status: 'ready', tree: 't1' });
  expect(paths(view)).toEqual(['a', 'b']);
  expect(view.rows).toHaveLength(8);
  await view.arrange('split');
  expect(view.rows).toHaveLength(6);
  expect(view.status).toBe('ready');
});
test('since a push, only files that differ from it are shown, also those without changes now', async () => {
  const view = new PatchView(api, pause);
  await view.load(codeSession({ pushed }), 'pushed', 'unified');
  expect(paths(view)).toEqual(['b', 'c']);
  expect(view.files[1]!.notes).toEqual(['Has no changes any more']);
});
test('a session without changes has no rows, and asks for no patch', async () => {
  const view = new PatchView({ patch: () => Promise.reject(new Error('asked')) }, pause);
  await view.load(codeSession({ tree: null, files: [], file_count: 0 }), 'all', 'unified');
  expect(view).toMatchObject({ status: 'ready', rows: [] });
});
test('an error is shown, and a later load replaces it', async () => {
  let fails = true;
  const view = new PatchView(
    { patch: () => (fails ? Promise.reject(new Error('no')) : Promise.resolve(NOW)) },
    pause,
  );
  await view.load(codeSession(), 'all', 'unified');
  expect(view.status).toBe('failed');
  fails = false;
  await view.load(codeSession(), 'all', 'unified');
  expect(view.status).toBe('ready');
});
test('of two loads, the last one counts, whichever ends first', async () => {
  let answer: (text: string) => void = () => undefined;
  const first = new Promise<string>((resolve) => (answer = resolve));
  let calls = 0;
  const view = new PatchView({ patch: () => (calls++ ? Promise.resolve(NOW) : first) }, pause);
  const load = view.load(codeSession(), 'all', 'unified');
  await view.load(codeSession({ tree: 't2' }), 'all', 'unified');
  answer(file('late', 'x', 'y'));
  await load;
  expect(view.tree).toBe('t2');
  expect(paths(view)).toEqual(['a', 'b']);
});
test('a file of 300,000 lines is arranged', async () => {
  const lines = Array.from({ length: 300_000 }, (_, n) => `+${n}`).join('\n');
  const text = `diff --git a/x b/x\n--- /dev/null\n+++ b/x\n@@ -0,0 +1,300000 @@\n${lines}\n`;
  const view = new PatchView({ patch: () => Promise.resolve(text) }, pause);
  await view.load(codeSession(), 'all', 'split');
  expect(view.rows).toHaveLength(300_002);
});
