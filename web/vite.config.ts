import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';
import { shellList } from './shell.ts';

const server = process.env.OPENVIBE_SERVER ?? 'http://127.0.0.1:8080';

export default defineConfig({
  plugins: [svelte(), shellList()],
  build: {
    target: 'es2022',
    outDir: process.env.OPENVIBE_WEB_OUT ?? 'dist',
    emptyOutDir: true,
    // The client, and the API reference at /docs.
    rolldownOptions: {
      input: { index: 'index.html', docs: 'docs.html' },
      // Few files before the first rows, because small ones compress badly: Svelte (also for /docs), the shell with its lists, and,
      // in a thread, Markdown and messages. A module belongs to the first group that needs it.
      output: {
        // The first script names most others, and hashes do not compress.
        entryFileNames: 'assets/[name]-[hash:7].js',
        chunkFileNames: 'assets/[name]-[hash:7].js',
        assetFileNames: 'assets/[name]-[hash:7][extname]',
        codeSplitting: {
          groups: [
            {
              name: 'base',
              priority: 6,
              test: /node_modules.(svelte|esm-env|clsx)\b|preload-helper|src.lib.(enhance|secure|mend|storage|mention|visible)\.|components.Logo\./,
            },
            // also what threads and the inbox share, so that neither loads the other
            {
              name: 'start',
              priority: 5,
              test: /src.App\.svelte$|src.lib.long-press\.ts$|src.state.follow-thread\.ts$|lucide.*icons.(check|clock)\.(js|svelte)$/,
            },
            { name: 'sanitizer', priority: 4, test: /node_modules.dompurify\b/ },
            { name: 'markdown', priority: 3, test: /src.lib.markdown\.ts$/ },
            { name: 'thread', priority: 2, test: /src.components.ThreadView\.svelte$/ },
            { name: 'inbox', priority: 1, test: /src.inbox.InboxPage\.svelte$/ },
            // icons that several parts share
            { name: 'icons', priority: 0, test: /@lucide/, minShareCount: 2 },
          ],
        },
      },
    },
    // Inlined assets would be data: URLs, which the CSP refuses for fonts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: true,
  },
  // The server compares Origin with Host, so the proxy must keep the browser's Host.
  server: { proxy: { '/v1': { target: server, ws: true, changeOrigin: false } } },
});
