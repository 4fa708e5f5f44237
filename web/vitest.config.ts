import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

// Component tests name happy-dom in their first line; layout and whole pages are tested in real Chromium (e2e/). The
// `browser` condition picks Svelte's reactive client build.
export default defineConfig({
  plugins: [svelte()],
  resolve: { conditions: ['browser'] },
  test: {
    include: ['src/**/*.test.ts', 'tests/**/*.test.js'],
    environment: 'node',
    setupFiles: ['src/test/setup.ts'],
    testTimeout: 30_000,
  },
});
