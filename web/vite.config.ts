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
    // The client, the API reference at /docs, and the service worker, which has to be at the root.
    rolldownOptions: {
      input: { index: 'index.html', docs: 'docs.html', sw: 'src/offline/worker.ts' },
      // The startup bundle is two files instead of a dozen small ones that compress badly; /docs shares the first one.
      output: {
        entryFileNames: ({ name }) => (name === 'sw' ? 'sw.js' : 'assets/[name]-[hash].js'),
        codeSplitting: {
          groups: [
            {
              name: 'base',
              priority: 2,
              test: /node_modules.(svelte|marked|dompurify|esm-env|clsx)\b|src.lib.(markdown|enhance|secure|mend|storage)\.|components.Logo\./,
            },
            { name: 'start', priority: 1, test: /src.App\.svelte$/ },
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
