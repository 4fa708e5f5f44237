import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'vite';

/** Files of `public/` that the start page asks for. */
const PUBLIC = ['theme.js', 'favicon.svg'];
/** Fonts of other scripts are fetched when text needs them. */
const LATIN = /-latin-wght-/;

interface Part {
  type: string;
  source?: string | Uint8Array;
  imports?: string[];
  dynamicImports?: string[];
  viteMetadata?: { importedCss: Set<string>; importedAssets: Set<string> };
}

/** Code of the service worker, as one file: browsers do not run it if it imports what it shares with the client. */
const workerCode = async (): Promise<string> => {
  const built = await build({
    configFile: false,
    publicDir: false,
    logLevel: 'error',
    build: {
      write: false,
      target: 'es2022',
      rolldownOptions: {
        input: fileURLToPath(new URL('src/offline/worker.ts', import.meta.url)),
        output: { format: 'iife' },
      },
    },
  });
  if (!('output' in built)) throw new Error('the service worker was not built');
  return built.output[0].code;
};

/** Adds the service worker, which begins with the list of the client's files and a version made of them. */
export const shellList = (): Plugin => ({
  name: 'openvibe-shell',
  apply: 'build',
  enforce: 'post',
  generateBundle: {
    order: 'post',
    async handler(_, bundle) {
      const parts = bundle as unknown as Record<string, Part>;
      const page = parts['index.html'];
      const entry = /src="\/(assets\/[^"]+\.js)"/.exec(String(page?.source))?.[1];
      if (!page || !entry) throw new Error('the page was not built');
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
      const source = `const SHELL = ${JSON.stringify(shell)};\n${await workerCode()}`;
      this.emitFile({ type: 'asset', fileName: 'sw.js', source });
    },
  },
});
