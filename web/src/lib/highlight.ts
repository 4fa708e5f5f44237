import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import ini from 'highlight.js/lib/languages/ini';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import ts from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';

for (const [n, l] of Object.entries({
  bash,
  css,
  diff,
  go,
  ini,
  json,
  python,
  rust,
  sql,
  typescript: ts,
  xml,
  yaml,
}))
  hljs.registerLanguage(n, l);
hljs.registerAliases(['js', 'javascript', 'jsx', 'tsx', 'ts', 'svelte'], { languageName: 'typescript' });
hljs.registerAliases(['sh', 'shell', 'console'], { languageName: 'bash' });
hljs.registerAliases(['toml'], { languageName: 'ini' });

export function paint(el: HTMLElement): void {
  const lang = el.dataset.lang!,
    code = el.textContent ?? '';
  // A long line is unlikely to be code, and some grammars take quadratic time.
  if (!hljs.getLanguage(lang) || code.length > 40_000 || /[^\n]{1001}/.test(code)) return;
  el.innerHTML = hljs.highlight(code, { language: lang, ignoreIllegals: true }).value; // hljs escapes its input
  el.classList.add('hljs');
}
