import { Marked, type MarkedOptions, type Token, type Tokens, type TokensList } from 'marked';
import DOMPurify from 'dompurify';
import { boundedTokenizer, decoded, lexBounded } from './bounded-lexer';
import { emojiNamed } from './emoji';
import { LESS } from './enhance';
import { candidatesOf, CONTEXT_UNITS, continuesWord, isInsideWord, SIGNED } from './mention';
import { prepare, restore, restoreHtml } from './reading';
import { hasVisible } from './visible';
import './markdown.css';

/** Names that may be highlighted in a text: handles that were mentioned, channels that exist. */
export interface Names {
  handles: ReadonlySet<string>;
  /** The user's own handle, shown with emphasis. */
  me: string | null;
  /** Paths by channel name; only channels that the user can read. */
  channels: ReadonlyMap<string, string>;
  /** URLs of custom emoji, by name. */
  emoji?: ReadonlyMap<string, string>;
}
/** Names as the lexer needs them. */
type KnownNames = Omit<Names, 'handles'> & { handles: Pick<ReadonlySet<string>, 'has'> };
export const NO_NAMES: Names = { handles: new Set(), me: null, channels: new Map() };

const esc = (s: string) =>
  s.replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]!);
const isLink = (href: string) => /^(?:https?:|mailto:)/i.test(href);

/** Longer code is collapsed. */
const CODE_LINES_MAX = 40;
const showAll = (lines: number) => `Show all ${lines} lines`;

export function codeBlock(lang: string, code: string, expanded = false): string {
  const lines = code.replace(/\n$/, '').split('\n').length;
  const long = lines > CODE_LINES_MAX;
  return (
    `<figure class="code${long ? ' long' : ''}${long && expanded ? ' open' : ''}"><figcaption><span>${esc(lang || 'text')}</span>` +
    `<button type="button" class="copy" data-copy>Copy</button></figcaption>` +
    `<pre tabindex="0"><code data-lang="${esc(lang)}">${esc(code)}</code></pre>` +
    (long
      ? `<button type="button" class="more" aria-expanded="${expanded}" data-more="${showAll(lines)}">` +
        `${expanded ? LESS : showAll(lines)}</button>`
      : '') +
    `</figure>`
  );
}

/** Text as typed, if it must not or cannot be rendered. */
export const plainBlock = (text: string): string =>
  `<div class="as-typed"><p class="meta">Shown as plain text</p><div dir="auto">${esc(text)}</div></div>`;

/** Rendering is synchronous, so the names for the current text can be a module variable. */
let names: KnownNames = NO_NAMES;
let expanded = false;
/** Nesting depth of the block that is being rendered: the outermost block decides the text direction. */
let nested = 0;
const dir = () => (nested ? '' : ' dir="auto"');
function inside<T>(render: () => T): T {
  nested++;
  try {
    return render();
  } finally {
    nested--;
  }
}
/** The text before a token, as far as it decides about a name. */
function textBefore(before: Token[] | undefined): string {
  let text = '';
  for (let i = before?.length ?? 0; i > 0 && text.length < CONTEXT_UNITS; i--)
    text = before![i - 1]!.raw.slice(-CONTEXT_UNITS) + text;
  return text;
}
/** A tag that people write for a line break. */
const LINE_BREAK = /(<br(?:\s[^<>]*)?\/?>)/i;
const EMOJI_NAME = /^:([a-z0-9_+-]{1,40}):(?![A-Za-z0-9_])/;

const md = new Marked({ gfm: true, breaks: true });
md.use({
  tokenizer: boundedTokenizer,
  renderer: {
    code: ({ text, lang }) => codeBlock((lang ?? '').split(/\s/)[0]!, text, expanded),
    // Raw HTML is shown as text. Remote images become links: an agent's reply must not cause requests to other servers.
    // A line break is one.
    html: ({ text }) =>
      text
        .split(LINE_BREAK)
        .map((part, i) => (i % 2 ? '<br>' : esc(part)))
        .join(''),
    image: ({ href, text }) =>
      isLink(href) ? `<a href="${esc(href)}">${esc(text || href)}</a>` : esc(text || href),
    link({ href, tokens }) {
      const label = this.parser.parseInline(tokens);
      return isLink(href) ? `<a href="${esc(href)}">${label}</a>` : label;
    },
    paragraph(t) {
      return `<p${dir()}>${this.parser.parseInline(t.tokens)}</p>\n`;
    },
    heading(t) {
      return `<h${t.depth}${dir()}>${this.parser.parseInline(t.tokens)}</h${t.depth}>\n`;
    },
    blockquote(t) {
      return `<blockquote${dir()}>\n${inside(() => this.parser.parse(t.tokens))}</blockquote>\n`;
    },
    list(t) {
      const tag = t.ordered ? 'ol' : 'ul';
      const start = t.ordered && t.start !== 1 ? ` start="${t.start}"` : '';
      const items = inside(() => t.items.map((item) => this.listitem(item)).join(''));
      return `<${tag}${start}${dir()}>\n${items}</${tag}>\n`;
    },
    listitem(item) {
      return `<li${item.task ? ' class="task"' : ''}>${this.parser.parse(item.tokens)}</li>\n`;
    },
    table(t) {
      const cell = (c: { tokens: Token[]; align: string | null }, tag: string) =>
        `<${tag} dir="auto"${c.align ? ` class="to-${c.align}"` : ''}>${this.parser.parseInline(c.tokens)}</${tag}>`;
      const head = t.header.map((c) => cell(c, 'th')).join('');
      const body = t.rows.map((r) => `<tr>${r.map((c) => cell(c, 'td')).join('')}</tr>`).join('');
      return (
        `<div class="tablewrap" tabindex="0" role="group" aria-label="Table"><table>` +
        `<thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></div>`
      );
    },
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
  },
  // The extensions need no `start`: the text tokenizer stops where they can begin, in linear time.
  extensions: [
    {
      name: 'plain',
      renderer: (t) => plainBlock(t.raw),
    },
    {
      name: 'mention',
      level: 'inline',
      tokenizer(src, before) {
        const whole = SIGNED.exec(src)?.[1];
        if (!whole || continuesWord(src.slice(1 + whole.length, 3 + whole.length))) return undefined;
        const name = candidatesOf(whole).find((handle) => names.handles.has(handle.toLowerCase()));
        if (!name || isInsideWord(textBefore(before))) return undefined;
        return { type: 'mention', raw: src.slice(0, 1 + name.length), name };
      },
      renderer: (t) => {
        const name = t.name as string;
        return `<span class="mention${name.toLowerCase() === names.me ? ' me' : ''}">${esc(t.raw)}</span>`;
      },
    },
    {
      name: 'emoji',
      level: 'inline',
      tokenizer(src, before) {
        const name = src[0] === ':' ? EMOJI_NAME.exec(src)?.[1] : undefined;
        if (!name) return undefined;
        const char = emojiNamed(name);
        const url = char ? undefined : names.emoji?.get(name);
        if (!char && !url) return undefined;
        const last = before.at(-1);
        if (last && last.type !== 'emoji' && /[\w:]$/.test(last.raw.slice(-1))) return undefined;
        return { type: 'emoji', raw: `:${name}:`, char, url };
      },
      renderer: (t) =>
        t.url ? `<img class="emoji" alt="${esc(t.raw)}" src="${esc(t.url as string)}">` : (t.char as string),
    },
    {
      name: 'channel',
      level: 'inline',
      tokenizer(src, before) {
        if (src[0] !== '#') return undefined;
        const m = /^#([\p{L}\p{N}][\p{L}\p{N}_-]{0,79})/u.exec(src);
        if (!m || isInsideWord(textBefore(before)) || !names.channels.has(m[1]!)) return undefined;
        return { type: 'channel', raw: m[0], name: m[1] };
      },
      renderer: (t) => {
        const name = t.name as string;
        return `<a class="chan" href="${esc(names.channels.get(name)!)}">#${esc(name)}</a>`;
      },
    },
  ],
});
const RULES = {
  ALLOWED_TAGS:
    'p br strong em del code pre ul ol li blockquote h1 h2 h3 h4 h5 h6 hr a table thead tbody tr th td div span figure figcaption button img'.split(
      ' ',
    ),
  ALLOWED_ATTR:
    'href class start type tabindex role aria-label aria-expanded dir data-lang data-copy data-more target rel alt src'.split(
      ' ',
    ),
  // Every other attribute's value is also matched against the pattern below.
  ADD_URI_SAFE_ATTR: ['tabindex', 'type', 'start', 'dir', 'aria-expanded'],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|\/(?!\/))/i,
};
if (DOMPurify.isSupported) {
  DOMPurify.addHook('afterSanitizeAttributes', (n) => {
    // The only pictures are custom emoji.
    if (n.tagName === 'IMG' && !/^\/v1\/files\/\w+$/.test(n.getAttribute('src') ?? '')) n.remove();
    if (n.tagName !== 'A' || n.classList.contains('chan')) return;
    n.setAttribute('target', '_blank');
    n.setAttribute('rel', 'noopener noreferrer nofollow');
  });
}

/** Second layer of defense. Without a DOM, nothing can be sanitized, so nothing is shown. */
export const clean = (html: string): string => (DOMPurify.isSupported ? DOMPurify.sanitize(html, RULES) : '');

export interface RenderOptions {
  /** Renders line breaks as `<br>`, as people expect in a chat; off for instructions. */
  breaks?: boolean;
  /** Shows long code expanded. */
  expanded?: boolean;
}

/** First layer only: Markdown to HTML with raw HTML escaped. For tests; shown text goes through `clean`. */
export function toHtml(tokens: Token[], as: Names, options: RenderOptions = {}): string {
  names = as;
  expanded = options.expanded ?? false;
  nested = 0;
  try {
    return restoreHtml(md.parser(tokens as TokensList), esc);
  } finally {
    names = NO_NAMES;
  }
}
/** Linear time; a block that would take longer is a `plain` token (`bounded-lexer.ts`). */
export function lex(text: string, as: KnownNames, { breaks = true }: RenderOptions = {}): TokensList {
  names = as;
  try {
    const tokens = lexBounded(prepare(text), { ...md.defaults, breaks } as MarkedOptions);
    for (const token of tokens) token.raw = restore(token.raw);
    return tokens;
  } finally {
    names = NO_NAMES;
  }
}
/** Handles that a text mentions, as the server finds them: not in code or quotes. */
export function handlesIn(text: string, isHandle: (handle: string) => boolean): Set<string> {
  const found = new Set<string>();
  const visit = (tokens: Token[]): void => {
    for (const token of tokens) {
      if (token.type === 'mention') found.add((token.name as string).toLowerCase());
      if (token.type === 'blockquote' || token.type === 'image') continue;
      if (token.type === 'list') for (const item of (token as Tokens.List).items) visit(item.tokens);
      else if (token.type === 'table') {
        const { header, rows } = token as Tokens.Table;
        for (const cell of [header, ...rows].flat()) visit(cell.tokens);
      } else if ('tokens' in token && token.tokens) visit(token.tokens);
    }
  };
  visit(lex(text, { ...NO_NAMES, handles: { has: isHandle } }));
  return found;
}
/** References to characters that show nothing, which the browser decodes. */
const BLANK_REFERENCE =
  /&(?:nbsp|shy|zwj|zwnj|lrm|rlm|ensp|emsp|thinsp|hairsp|NoBreak|ZeroWidthSpace|Tab|NewLine);/g;
function isShown(token: Token): boolean {
  switch (token.type) {
    case 'space':
    case 'def':
    case 'br':
      return false;
    case 'code':
      return hasVisible((token as Tokens.Code).text);
    case 'html':
      return hasVisible(
        token.raw
          .split(LINE_BREAK)
          .filter((_, i) => i % 2 === 0)
          .join(''),
      );
    case 'image':
      return !!(token as Tokens.Image).href || hasVisible((token as Tokens.Image).text);
    case 'list':
      return (
        !!(token as Tokens.List).ordered ||
        (token as Tokens.List).items.some((item) => item.task || item.tokens.some(isShown))
      );
    case 'table': {
      const { header, rows } = token as Tokens.Table;
      return [header, ...rows].flat().some((cell) => cell.tokens.some(isShown));
    }
    case 'text':
    case 'paragraph':
    case 'heading':
    case 'blockquote':
    case 'link':
    case 'strong':
    case 'em':
    case 'del':
      return 'tokens' in token && token.tokens
        ? token.tokens.some(isShown)
        : hasVisible(decoded((token as Tokens.Text).text).replace(BLANK_REFERENCE, ''));
    default:
      return true;
  }
}
/** Checks for a message that shows nothing, which the server rejects (tests/corpus/blank.json). */
export const isBlank = (text: string): boolean =>
  !hasVisible(text) || (!/^[a-z]/i.test(text) && !lex(text, NO_NAMES).some(isShown));
export const renderTokens = (tokens: Token[], as: Names, options: RenderOptions = {}): string =>
  clean(toHtml(tokens, as, options));

/**
 * Maximum number of rendered messages in the cache, whose keys contain the text. A virtual list mounts the
 * same row many times.
 */
const CACHE_MAX = 800;
const cache = new Map<string, string>();
/** Versions of the channel links: renaming a channel makes a new one, an equal map does not. */
const versions = new WeakMap<Names['channels'], number>();
let newest = { text: '', version: 0 };
export const versionOf = (links: Names['channels']): number => {
  const known = versions.get(links);
  if (known !== undefined) return known;
  const text = [...links].join();
  if (text !== newest.text) newest = { text, version: newest.version + 1 };
  versions.set(links, newest.version);
  return newest.version;
};
export function render(body: string, as: Names): string {
  const key = `${as.me ?? ''}\0${[...as.handles].join()}\0${versionOf(as.channels)}\0${as.emoji ? versionOf(as.emoji) : ''}\0${body}`;
  let html = cache.get(key);
  if (html === undefined) {
    html = renderTokens(lex(body, as), as);
    if (cache.size >= CACHE_MAX) cache.delete(cache.keys().next().value!);
    cache.set(key, html);
  }
  return html;
}
