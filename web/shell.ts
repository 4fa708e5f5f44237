import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Plugin } from 'vite';

/** Files of `public/` that the start page asks for. */
const PUBLIC = ['theme.js', 'favicon.svg'];
/** Fonts of other scripts are fetched when text needs them. */
const LATIN = /-latin-wght-/;

interface Part {
  type: string;
  code?: string;
  source?: string | Uint8Array;
  imports?: string[];
  dynamicImports?: string[];
  viteMetadata?: { importedCss: Set<string>; importedAssets: Set<string> };
}

/** Puts the list of the client's files, and a version made of them, into the service worker. */
export const shellList = (): Plugin => ({
  name: 'openvibe-shell',
  apply: 'build',
  enforce: 'post',
  generateBundle: {
    order: 'post',
    handler(_, bundle) {
      const parts = bundle as unknown as Record<string, Part>;
      const worker = parts['sw.js'];
      const page = parts['index.html'];
      const entry = /src="\/(assets\/[^"]+\.js)"/.exec(String(page?.source))?.[1];
      if (!worker?.code || !page || !entry) throw new Error('the service worker or the page was not built');
      const files = new Set<string>();
      const add = (name: string) => {
        const part = parts[name];
        if (!part || files.has(name)) return;
        files.add(name);
        for (const next of [...(part.imports ?? []), ...(part.dynamicImports ?? [])]) add(next);
        for (const css of part.viteMetadata?.importedCss ?? []) files.add(css);
        for (const font of part.viteMetadata?.importedAssets ?? []) if (LATIN.test(font)) files.add(font);
      };
      add(entry);
      for (const [, css] of String(page.source).matchAll(/href="\/(assets\/[^"]+\.css)"/g)) files.add(css!);
      for (const name of Object.keys(parts)) if (LATIN.test(name)) files.add(name);
      const sorted = [...files].sort();
      const hash = createHash('sha256').update(String(page.source)).update(sorted.join());
      for (const name of PUBLIC) hash.update(readFileSync(new URL(`public/${name}`, import.meta.url)));
      const shell = {
        version: hash.digest('hex').slice(0, 16),
        paths: ['/', ...PUBLIC.map((name) => `/${name}`), ...sorted.map((name) => `/${name}`)],
      };
      worker.code = `const SHELL = ${JSON.stringify(shell)};\n${worker.code}`;
    },
  },
});
