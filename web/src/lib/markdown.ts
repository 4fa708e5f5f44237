import { Marked, type Token, type TokensList } from 'marked';
import DOMPurify from 'dompurify';

/** What may be highlighted in a text: handles that were really mentioned, channels that really exist. */
export interface Names {
  handles: ReadonlySet<string>;
  /** My own handle, shown stronger. */
  me: string | null;
  /** Channel name to address; only what the reader may see. */
  channels: ReadonlyMap<string, string>;
}
export const NO_NAMES: Names = { handles: new Set(), me: null, channels: new Map() };

const esc = (s: string) =>
  s.replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]!);
const isLink = (href: string) => /^(?:https?:|mailto:)/i.test(href);

export const codeBlock = (lang: string, code: string) =>
  `<figure class="code"><figcaption><span>${esc(lang || 'text')}</span>` +
  `<button type="button" class="copy" data-copy>Copy</button></figcaption>` +
  `<pre tabindex="0"><code data-lang="${esc(lang)}">${esc(code)}</code></pre></figure>`;

/** Rendering is synchronous, so the names of the text at hand can stand here for its duration. */
let names: Names = NO_NAMES;
const insideWord = (before: Token[] | undefined) => /(?:\w|:\/\/)$/.test(before?.at(-1)?.raw ?? '');

const md = new Marked({ gfm: true, breaks: true });
md.use({
  tokenizer: {
    // What follows a `<script>` or `<code>` is text like any other, and escaped.
    inlineText() {
      this.lexer.state.inRawBlock = false;
      return false;
    },
  },
  renderer: {
    code: ({ text, lang }) => codeBlock((lang ?? '').split(/\s/)[0]!, text),
    // Raw HTML is shown, not run. Remote images are links: an agent's reply must not be able to call out.
    html: ({ text }) => esc(text),
    image: ({ href, text }) =>
      isLink(href) ? `<a href="${esc(href)}">${esc(text || href)}</a>` : esc(text || href),
    link({ href, tokens }) {
      const label = this.parser.parseInline(tokens);
      return isLink(href) ? `<a href="${esc(href)}">${label}</a>` : label;
    },
    table(t) {
      const cell = (c: { tokens: Token[] }, tag: string) =>
        `<${tag}>${this.parser.parseInline(c.tokens)}</${tag}>`;
      const head = t.header.map((c) => cell(c, 'th')).join('');
      const body = t.rows.map((r) => `<tr>${r.map((c) => cell(c, 'td')).join('')}</tr>`).join('');
      return (
        `<div class="tablewrap" tabindex="0" role="region" aria-label="Table"><table>` +
        `<thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></div>`
      );
    },
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
  },
  extensions: [
    {
      name: 'mention',
      level: 'inline',
      start: (s) => indexOr(s.indexOf('@')),
      tokenizer(src, before) {
        let name = /^@([a-z0-9][a-z0-9_-]{0,63})(?![\w-])/i.exec(src)?.[1];
        const known = () => names.handles.has(name!.toLowerCase());
        // A hyphen at the end may be punctuation.
        while (name?.endsWith('-') && !known()) name = name.slice(0, -1);
        if (!name || insideWord(before) || !known()) return undefined;
        return { type: 'mention', raw: '@' + name, name };
      },
      renderer: (t) => {
        const name = t.name as string;
        return `<span class="mention${name.toLowerCase() === names.me ? ' me' : ''}">@${esc(name)}</span>`;
      },
    },
    {
      name: 'channel',
      level: 'inline',
      start: (s) => indexOr(s.indexOf('#')),
      tokenizer(src, before) {
        const m = /^#([\p{L}\p{N}][\p{L}\p{N}_-]{0,79})/u.exec(src);
        if (!m || insideWord(before) || !names.channels.has(m[1]!)) return undefined;
        return { type: 'channel', raw: m[0], name: m[1] };
      },
      renderer: (t) => {
        const name = t.name as string;
        return `<a class="chan" href="${esc(names.channels.get(name)!)}">#${esc(name)}</a>`;
      },
    },
  ],
});
function indexOr(i: number): number | undefined {
  return i < 0 ? undefined : i;
}

const RULES = {
  ALLOWED_TAGS:
    'p br strong em del code pre ul ol li blockquote h1 h2 h3 h4 h5 h6 hr a table thead tbody tr th td div span figure figcaption button'.split(
      ' ',
    ),
  ALLOWED_ATTR: 'href class start type tabindex role aria-label data-lang data-copy target rel'.split(' '),
  // The pattern below is held against every other attribute's value too.
  ADD_URI_SAFE_ATTR: ['tabindex', 'type', 'start'],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|\/(?!\/))/i,
};
if (DOMPurify.isSupported) {
  DOMPurify.addHook('afterSanitizeAttributes', (n) => {
    if (n.tagName !== 'A' || n.classList.contains('chan')) return;
    n.setAttribute('target', '_blank');
    n.setAttribute('rel', 'noopener noreferrer nofollow');
  });
}

/** The second wall. Without a DOM there is nothing to sanitise with, so nothing is shown. */
export const clean = (html: string): string => (DOMPurify.isSupported ? DOMPurify.sanitize(html, RULES) : '');

/** The first wall alone: Markdown to HTML with raw HTML escaped. For tests; what is shown goes through `clean`. */
export function toHtml(tokens: Token[], as: Names): string {
  names = as;
  try {
    return md.parser(tokens as TokensList);
  } finally {
    names = NO_NAMES;
  }
}
export function lex(text: string, as: Names): TokensList {
  names = as;
  try {
    return md.lexer(text);
  } finally {
    names = NO_NAMES;
  }
}
export const renderTokens = (tokens: Token[], as: Names): string => clean(toHtml(tokens, as));

/** Finished messages: parsed once, kept by text. A virtual list mounts the same row many times. */
const CACHE_MAX = 800;
const cache = new Map<string, string>();
export function render(body: string, as: Names): string {
  const key = `${as.me ?? ''}\0${[...as.handles].join()}\0${as.channels.size}\0${body}`;
  let html = cache.get(key);
  if (html === undefined) {
    html = renderTokens(lex(body, as), as);
    if (cache.size >= CACHE_MAX) cache.delete(cache.keys().next().value!);
    cache.set(key, html);
  }
  return html;
}
