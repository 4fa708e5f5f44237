import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

// Node only: code that needs a DOM is tested in real Chromium (e2e/). The `browser` condition picks Svelte's reactive client build.
export default defineConfig({
  plugins: [svelte()],
  resolve: { conditions: ['browser'] },
  test: { include: ['src/**/*.test.ts', 'tests/**/*.test.js'], environment: 'node' },
});
