import { expect, test } from 'vitest';

/** Words that labeled something in earlier versions, each with the word that replaces it. */
const OLD: [RegExp, string][] = [
  [/^Agents: when mentioned/, 'Agents reply when mentioned'],
  [/Knows this message only/, 'Agents here read this message and this dive'],
  [/left for later/i, 'Postponed'],
  [/^Heartbeat$|, heartbeat\b/, 'Regular check'],
  [/^(AGENTS|TOOLS)\.md$/, 'Working rules, Notes on tools'],
  [/Let agents work on it/, 'Have agents discuss it'],
  [/Run a workflow/, 'Start a workflow'],
  [/Trust level/, 'When must agents ask?'],
  [/Trust reads/, 'May read without asking'],
  [/Requester and admin/, 'The person who asked and an admin'],
  [/As set per function/, 'As set for each function'],
  [/^Agency$/, 'Role in the team'],
  [/\bPersonas?\b/, 'Character'],
  [/^Base$/, 'Based on'],
  [/^Required text$/, 'Told to every agent first'],
  [/^Capabilities and metadata$/, 'Tags'],
  [/^Access$/, 'Who may ask it'],
  [/^Retention$/, 'Answers kept for programs'],
];
const FILES: Record<string, string> = import.meta.glob(
  ['../**/*.{svelte,ts}', '!../**/*.test.ts', '!../{api,test}/**', '!../suggest/labeled-threads.ts'],
  { query: '?raw', import: 'default', eager: true },
);
/** File names in code, which are not labels. */
const PATH = /^(AGENTS|TOOLS)\.md$/;

/** Texts of a file that can be shown: strings, and the texts and attributes of its markup. */
function textsIn(name: string, source: string): string[] {
  const code = source.replaceAll(
    /\/\*[\s\S]*?\*\/|<!--[\s\S]*?-->|<style>[\s\S]*<\/style>|^\s*(\/\/|import ).*$/gm,
    '',
  );
  const script = name.endsWith('.ts') ? code : (/<script[^>]*>([\s\S]*?)<\/script>/.exec(code)?.[1] ?? '');
  const markup = name.endsWith('.ts') ? '' : code.replace(/<script[^>]*>[\s\S]*?<\/script>/, '');
  const strings = (text: string) =>
    [...text.matchAll(/'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`/g)].map(
      (m) => m[1] ?? m[2] ?? m[3] ?? '',
    );
  const nodes = [...markup.matchAll(/[>}]([^<>{}]+)[<{]/g)].map((m) => m[1]!.replaceAll(/\s+/g, ' ').trim());
  return [...strings(script).filter((text) => !PATH.test(text)), ...strings(markup), ...nodes];
}

test('texts in strings, attributes, and markup are found', () => {
  const source = `<script lang="ts">
    // 'comment'
    const a = 'one', b = \`two \${x}\`;
  </script>
  <p title="three">four {b}
    five</p>`;
  expect(textsIn('X.svelte', source)).toEqual(['one', 'two ${x}', 'three', 'four', 'five']);
  expect(textsIn('x.ts', "import { y } from 'y';\nexport const x = 'six';")).toEqual(['six']);
});
test('no old word labels anything', () => {
  expect(Object.keys(FILES).length).toBeGreaterThan(300);
  const found = Object.entries(FILES).flatMap(([file, source]) =>
    textsIn(file, source).flatMap((text) =>
      OLD.filter(([old]) => old.test(text)).map(([, word]) => `${file}: “${text}” is now “${word}”`),
    ),
  );
  expect(found).toEqual([]);
});
