import { describe, expect, test } from 'vitest';
import emojiNames from '../../../tests/corpus/markdown/emoji-names.md?raw';
import emojiShown from '../../../tests/corpus/markdown/emoji-names.expected?raw';
import { clean, handlesIn, lex, NO_NAMES, toHtml, versionOf, type Names } from './markdown';

/** First layer only. DOMPurify, the second one, needs a DOM: both are tested in Chromium (e2e/stream.test.mjs). */
const html = (s: string, names: Names = NO_NAMES) => toHtml(lex(s, names), names);

describe('safety', () => {
  test('raw HTML is shown, not run', () => {
    expect(html('<img src=x onerror=alert(1)>')).not.toContain('<img');
    expect(html('a <script>alert(1)</script>')).not.toContain('<script');
    expect(html('<div onclick="x()">y</div>')).not.toContain('<div onclick');
  });
  test('images become links, so that a reply cannot make browsers send requests', () => {
    const out = html('![chart](https://evil.example/p.png)');
    expect(out).not.toContain('<img');
    expect(out).toContain('<a href="https://evil.example/p.png">chart</a>');
  });
  test.each([
    'javascript:alert(1)',
    'JaVaScRiPt:alert(1)',
    'data:text/html,x',
    'vbscript:x',
    '/v1/auth/logout',
    '//evil.example',
  ])('%s is no link', (href) => {
    expect(html(`[x](${href})`)).not.toContain('href');
    expect(html(`![x](${href})`)).not.toContain('href');
  });
  test('quotes in a URL do not break out of the attribute', () => {
    expect(html('[x](https://a.example/"onmouseover="alert(1))')).not.toMatch(/"onmouseover/);
  });
  test('the language of a fence is text', () => {
    expect(html('```"><script>\nx\n```')).not.toContain('<script');
  });
  test('without a DOM, nothing is rendered', () => {
    expect(clean('<b>x</b>')).toBe('');
  });
});

describe('names', () => {
  const names: Names = {
    handles: new Set(['vibe', 'mia']),
    me: 'mia',
    channels: new Map([['general', '/nw/c/general']]),
  };
  test('only real mentions are marked, the user’s own with emphasis', () => {
    expect(html('@vibe and @Mia, not @ghost', names)).toContain('<span class="mention">@vibe</span>');
    expect(html('@Mia', names)).toContain('<span class="mention me">@Mia</span>');
    expect(html('@ghost', names)).not.toContain('mention');
  });
  test('mentions inside a word, code, or a URL are not marked', () => {
    expect(html('me@vibe', names)).not.toContain('class="mention"');
    expect(html('`@vibe`', names)).not.toContain('class="mention"');
    expect(html('```\n@vibe\n```', names)).not.toContain('class="mention"');
  });
  test('visible channels are links', () => {
    expect(html('see #general', names)).toContain('<a class="chan" href="/nw/c/general">#general</a>');
    expect(html('see #secret', names)).not.toContain('chan');
    expect(html('a#general', names)).not.toContain('chan');
  });
  test('a handle cannot contain HTML', () => {
    expect(html('@vibe<b>', names)).not.toContain('<b>');
  });
});

describe('blocks', () => {
  test('names of emoji become emoji, as on the server', () => {
    const text = html(emojiNames).replace(/<[^>]*>/g, ' ');
    const emoji = (s: string) => s.match(/\p{Extended_Pictographic}/gu);
    expect(emoji(text)).toEqual(emoji(emojiShown));
    expect(text).toContain('std::x::y');
  });
  test('columns keep their alignment', () => {
    const out = html('|a|b|c|\n|:-|:-:|-:|\n|1|2|3|');
    for (const to of ['left', 'center', 'right']) expect(out).toContain(`class="to-${to}"`);
  });
  test('each block determines its text direction', () => {
    for (const text of ['a', '# a', '- a', '> a']) expect(html(text).match(/dir="auto"/g)).toHaveLength(1);
  });
  test('tasks have no bullets', () => {
    expect(html('- [ ] a\n- b')).toContain('<li class="task">☐ ');
  });
  test('code over 40 lines is collapsed', () => {
    const code = (lines: number) => html('```\n' + 'x\n'.repeat(lines) + '```');
    expect(code(40)).not.toContain('Show all');
    expect(code(41)).toContain('Show all 41 lines');
  });
  test('single line breaks in instructions are not hard breaks', () => {
    expect(toHtml(lex('a\nb', NO_NAMES, { breaks: false }), NO_NAMES)).not.toContain('<br');
    expect(html('a\nb')).toContain('<br');
  });
});

test('a custom emoji is a picture outside of words and code, and other names are text', () => {
  const names: Names = { ...NO_NAMES, emoji: new Map([['parrot', '/v1/files/file_1']]) };
  const picture = '<img class="emoji" alt=":parrot:" src="/v1/files/file_1">';
  expect(html('We did it :parrot:!', names)).toContain(`it ${picture}!`);
  expect(html(':parrot::wave:', names)).toContain(`${picture}👋`);
  for (const text of ['`:parrot:`', 'a:parrot:', '::parrot::', ':other:', ':Parrot:'])
    expect(html(text, names)).not.toContain('<img');
  expect(html(':parrot:')).not.toContain('<img');
});

test('two addresses of a channel are two versions of its links; an equal map is the same', () => {
  const links = (address: string) => new Map([['general', address]]);
  expect(versionOf(links('/a/c/general'))).not.toBe(versionOf(links('/b/c/general')));
  expect(versionOf(links('/b/c/general'))).toBe(versionOf(links('/b/c/general')));
});

test('the draft hint matches the server’s rules', () => {
  const found = (text: string) => [...handlesIn(text, (h) => ['vibe', 'coder', 'ada'].includes(h))];
  expect(found('@Vibe and (@coder), not me@x.org')).toEqual(['vibe', 'coder']);
  expect(found('`@vibe` and\n```\n@coder\n```')).toEqual([]);
  expect(found('> @vibe said\n\n\\@coder https://x/@ada')).toEqual([]);
  expect(found('```\n@vibe never closed')).toEqual([]);
  expect(found('pnpm add @coder/sdk')).toEqual([]);
  expect(found('- ＠vibe\n\n| @coder |\n|---|\n| _@ada_ |')).toEqual(['vibe', 'coder', 'ada']);
});
