import svelte from 'eslint-plugin-svelte';
import globals from 'globals';
import ts from 'typescript-eslint';
import svelteConfig from './svelte.config.js';

export default ts.config(
  { ignores: ['dist/', 'node_modules/', 'src/api/schema.ts', 'public/'] },
  ...ts.configs.recommended,
  ...svelte.configs.recommended,
  { languageOptions: { globals: { ...globals.browser, ...globals.node } } },
  {
    files: ['src/**/*.ts', 'src/**/*.svelte', 'src/**/*.svelte.ts'],
    languageOptions: {
      parserOptions: {
        projectService: true,
        extraFileExtensions: ['.svelte'],
        parser: ts.parser,
        svelteConfig,
      },
    },
    rules: {
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      '@typescript-eslint/no-non-null-assertion': 'off',
      // Sanitized by DOMPurify in lib/markdown.ts, the only producer of {@html}.
      'svelte/no-at-html-tags': 'off',
      // Bookkeeping that nothing on screen reads (timers, in-flight sets, LRU order) is deliberately plain.
      'svelte/prefer-svelte-reactivity': 'off',
      'no-restricted-syntax': [
        'error',
        {
          selector: "MemberExpression[property.name='isComposing']",
          message: 'Use isComposing() of lib/keys.ts, which also detects the Enter of Safari.',
        },
      ],
      // Our own router takes plain paths.
      'svelte/no-navigation-without-resolve': 'off',
    },
  },
  {
    files: ['e2e/**/*.mjs'],
    rules: {
      'no-restricted-syntax': [
        'error',
        {
          selector: "CallExpression[callee.property.name='waitForFunction'] > :function[async=true]",
          message: 'waitForFunction does not wait for promises. Use until() of lib/copy.mjs.',
        },
      ],
    },
  },
);
