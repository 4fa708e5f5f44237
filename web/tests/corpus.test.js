import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { handlesIn, isBlank, lex, NO_NAMES, toHtml } from '../src/lib/markdown';

// Shared test cases of the server's parsers (tests/corpus), so that both parse a text the same way.
const folder = (name) => new URL(`../../tests/corpus/${name}/`, import.meta.url);
const read = (name, file) => readFileSync(new URL(file, folder(name)), 'utf8');
/** File, text, and the server's output. */
const texts = (name) =>
  readdirSync(folder(name))
    .filter((file) => file.endsWith('.md'))
    .map((file) => [file, read(name, file), read(name, file.replace(/md$/, 'expected'))]);
const html = (text, names = NO_NAMES) => toHtml(lex(text, names), names);

// Allowed output of the first layer.
const TAGS =
  /^(?:p|br|strong|em|del|code|pre|ul|ol|li|blockquote|h[1-6]|hr|a|table|thead|tbody|tr|th|td|div|span|figure|figcaption|button)$/;
const ATTRIBUTES =
  /^(?:href|class|start|type|tabindex|role|aria-label|aria-expanded|dir|data-lang|data-copy|data-more)$/;
const TAG = /<\/?([a-z0-9]+)((?:\s+[a-z-]+(?:="[^"<>]*")?)*)\s*\/?>/g;

/** Violations in HTML: tags, attributes, and addresses that are not allowed. */
function faults(out) {
  const found = [];
  const rest = out.replace(TAG, (_, tag, attributes) => {
    if (!TAGS.test(tag)) found.push(tag);
    for (const [, name, value] of attributes.matchAll(/([a-z-]+)(?:="([^"]*)")?/g)) {
      if (!ATTRIBUTES.test(name)) found.push(`${tag} ${name}`);
      if (name === 'href' && !/^(?:https?:|mailto:)/i.test(value)) found.push(`href ${value}`);
    }
    return '';
  });
  if (/[<>]/.test(rest)) found.push(rest);
  return found;
}

/** Reproducible random numbers. */
function numbers(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
const LABELS =
  '* _ ` ``` ~~~ > - [ ]( ) ![ < > <b " \' & \\ | # @vibe :// javascript: &#106; <code> \n \n\n \t é 👍'.split(
    ' ',
  );

describe('markdown', () => {
  const all = texts('markdown');
  test.each(all)('%s renders only allowed HTML', (_, text) => {
    expect(faults(html(text))).toEqual([]);
  });
  test('random mixtures of these texts render only allowed HTML', () => {
    const next = numbers(7);
    for (let n = 0; n < 3000; n++) {
      let text = all[next(all.length)][1];
      for (let edits = next(6); edits >= 0; edits--) {
        const at = next(text.length + 1);
        const other = all[next(all.length)][1];
        text =
          next(3) > 0
            ? text.slice(0, at) + LABELS[next(LABELS.length)] + text.slice(at + next(3))
            : text.slice(0, at) + other.slice(next(other.length));
      }
      expect(faults(html(text)), text).toEqual([]);
    }
  });
});

/** Text of HTML as a reader sees it. */
const shown = (out) =>
  out
    .replace(/<figcaption>.*?<\/figcaption>/g, '')
    .replace(/<br>/g, '\n')
    .replace(/<\/(?:t[dh])>/g, ' ')
    .replace(/<\/(?:p|li|tr|h\d|pre|blockquote)>/g, '\n')
    .replace(/<[^>]*>/g, '')
    .replace(/&lt;/g, '<')
    .replace(/&gt;/g, '>')
    .replace(/&quot;/g, '"')
    .replace(/&amp;/g, '&')
    .replace(/ *\n+/g, '\n')
    .trim();

describe('tables', () => {
  const table = (name) =>
    JSON.parse(readFileSync(new URL(`../../tests/corpus/${name}`, import.meta.url), 'utf8'));
  test.each(table('texts.json').map((c) => [c.text, c]))('%j is shown as the server reads it', (text, c) => {
    expect(shown(html(text))).toBe((c.shown ?? c.plain).replace(/ *\n+/g, '\n'));
    expect(
      lex(text, NO_NAMES)
        .map((token) => token.raw)
        .join(''),
    ).toBe(text);
  });
  test.each(table('blank.json').map((c) => [c.text, c.blank]))('%j is blank: %s', (text, blank) => {
    expect(isBlank(text)).toBe(blank);
  });
  test.each(table('links.json').map((c) => [c.text, c.links]))('%j has its links', (text, links) => {
    const found = [...html(text).matchAll(/<a href="[^"]*">([^<]*)<\/a>/g)];
    expect(found.map((link) => link[1].replaceAll('&amp;', '&'))).toEqual(links);
  });
});

/** Files in which the client shows fewer mentions than the server finds, with the reason. */
const LESS = {
  'html-block.md': 'raw HTML is shown as it was typed',
  'link-labels.md': 'what describes an image has no marks',
};

describe('mentions', () => {
  test.each(texts('mentions'))('%s shows the mentions that the server finds', (file, text, expected) => {
    const found = expected.split('\n').flatMap((line) => line.split(' ')[2] ?? []);
    const names = { handles: new Set(found), me: null, channels: new Map() };
    const marks = [...html(text, names).matchAll(/<span class="mention">[@＠]([^<]*)<\/span>/g)];
    const shown = marks.map((mark) => mark[1].toLowerCase());
    if (!(file in LESS)) {
      expect([...handlesIn(text, (handle) => names.handles.has(handle))]).toEqual([...new Set(found)]);
      return expect(shown).toEqual(found);
    }
    expect(shown.length).toBeLessThan(found.length);
    let from = 0;
    for (const name of shown) expect((from = found.indexOf(name, from) + 1)).toBeGreaterThan(0);
  });
});

/** Patterns that are cheap to write and expensive to parse (tests/corpus/hostile). */
const patterns = JSON.parse(read('hostile', 'patterns.json'));
const sized = ({ head = '', repeat, tail = '' }, size) =>
  head + repeat.repeat(Math.max(1, Math.floor((size - head.length - tail.length) / repeat.length))) + tail;
const cpuMs = (work) => {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
};
const KIB = 1024;

describe('hostile text', () => {
  test.each(patterns.map((p) => [p.name, p]))('%s is rendered in linear time', (_, pattern) => {
    const [small, large] = [sized(pattern, 16 * KIB), sized(pattern, 128 * KIB)];
    // 8 times the text. A quadratic renderer takes 64 times as long, however busy the machine is; the best of five runs
    // counts.
    let best = Infinity;
    for (let n = 0; n < 5 && best > 20; n++) {
      const floor = Math.max(
        10,
        cpuMs(() => html(small)),
      );
      best = Math.min(best, cpuMs(() => html(large)) / floor);
    }
    expect(best).toBeLessThan(20);
    expect(faults(html(sized(pattern, 32 * KIB)))).toEqual([]);
  });
  test('text that nests too deeply or has too many marks is shown as typed', () => {
    for (const repeat of ['> ', '- ', '1. ', '> - ', '*a_', '**a ', '~~a ', '`a``', '![']) {
      const text = sized({ repeat, tail: 'x' }, 3 * KIB);
      expect(html(text), repeat).toContain('Shown as plain text');
      expect(html(text).replace(/<[^>]*>/g, ''), repeat).toContain(text.replaceAll('>', '&gt;'));
    }
  });
  test('the other blocks of a message are not affected', () => {
    const out = html(`**before**\n\n${'*a_'.repeat(500)}\n\n**after**`);
    expect(out).toContain('<strong>before</strong>');
    expect(out).toContain('<strong>after</strong>');
    expect(out.match(/Shown as plain text/g)).toHaveLength(1);
  });
  test('twenty levels and two hundred marks are rendered', () => {
    for (const text of [
      `${'> '.repeat(20)}x`,
      `${'- '.repeat(20)}x`,
      '*a* '.repeat(100),
      '- *a* `b`\n'.repeat(300),
    ])
      expect(html(text)).not.toContain('plain text');
    for (const text of [`${'> '.repeat(21)}x`, `${'- '.repeat(21)}x`, `${'*a* '.repeat(100)}*`])
      expect(html(text)).toContain('plain text');
  });
  test('a long text renders like its parts', () => {
    const part =
      '# Title\n\nA *paragraph* with `code`\nand a line.\n\n- one\n- two\n  - three\n\n```js\nlet a = 1;\n\nlet b;\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n> quoted\n\n';
    const [once, often] = [html(part), html(part.repeat(60))];
    expect(often.replaceAll('\n', '')).toBe(once.replaceAll('\n', '').repeat(60));
  });
  test('long tables and long code stay whole', () => {
    expect(html(sized({ head: '|a|\n|-|\n', repeat: '| cell |\n' }, 40 * KIB)).match(/<table/g)).toHaveLength(
      1,
    );
    expect(
      html(sized({ head: '```\n', repeat: 'code\n\n', tail: '```' }, 40 * KIB)).match(/<pre/g),
    ).toHaveLength(1);
  });
});
