import { Lexer, Tokenizer, type MarkedOptions, type Token, type Tokens, type TokensList } from 'marked';

/* Lexes Markdown in time linear in its length, whatever the text. marked alone does not guarantee that:
   nested blocks overflow its stack or are lexed 2^depth times, and the end of an unclosed mark is searched
   again from each mark. */

/** Maximum nesting of quotes and lists; a deeper block is shown as plain text. */
export const NESTING_MAX = 20;
/** Maximum number of emphasis marks, brackets, and backticks in a paragraph, cell, or item. */
export const RUNS_MAX = 200;
/** Inline text is lexed in pieces of at most this length, so that the cost per character is bounded. */
const PIECE_MAX = 4096;
/** Work limit: a text nested to the limit is lexed once per level; more work means that the text is hostile. */
const WORK_PER_UNIT = NESTING_MAX + 4;
const WORK_MIN = 16 * 1024;

/** Blocks are lexed in slices of about this length; one block fills a slice of at most `SLICE_MAX`, except code and tables. */
const SLICE = 4096;
const SLICE_MAX = 8192;

const RUN = /\*+|_+|~+|\[+|`+/g;
const LOCAL_MAX = 64;
const EMAIL = /^[A-Za-z0-9._+-]{1,64}@[a-zA-Z0-9_-]{1,63}(?:\.[a-zA-Z0-9_-]{0,62}[a-zA-Z0-9]){1,8}(?![\w-])/;
const SCHEME = /^(?:https?:\/\/|ftp:\/\/|www\.)/i;
const MAIL_SCHEME = /^(?:mailto|xmpp):/i;
/** An address without brackets ends before these characters, and before an ellipsis at its end (tests/corpus/links.json). */
const ADDRESS_END = /[\s<“”‘’«»\u3000-\u303f\uff00-\uffef]/;
/** Longer addresses stay text: a link to a part of one would lead elsewhere. */
const URL_MAX = 2048;
/** Characters at which a token other than text can start. The tokenizers then decide. */
const SPECIAL =
  /[\\<[`*~@＠#\n]|!\[|\b_|:(?=[a-z0-9_+-]{1,40}:)|(?:https?|ftp):\/\/|(?<![^\s*_~(“‘«\u3000-\u9fff\uac00-\ud7ff\uff00-\uffef])www\.|(?:mailto|xmpp):/giu;

/** A block that is shown as typed. */
export interface PlainToken extends Tokens.Generic {
  type: 'plain';
  raw: string;
}
const plainToken = (raw: string): PlainToken => ({ type: 'plain', raw });

class TooMuchWork extends Error {}

/** Start of the email address that ends before `at`, or -1. */
function localPart(src: string, at: number): number {
  let start = at;
  while (start > 0 && at - start <= LOCAL_MAX && /[A-Za-z0-9._+-]/.test(src[start - 1]!)) start--;
  return start < at && at - start <= LOCAL_MAX && EMAIL.test(src.slice(start, at + 600)) ? start : -1;
}

/** Length of the text at the start of `src`, at least 1. */
function textLength(src: string): number {
  SPECIAL.lastIndex = 1;
  for (let m = SPECIAL.exec(src); m; m = SPECIAL.exec(src)) {
    let end = m.index;
    if (m[0] === '\n') while (end > 1 && src[end - 1] === ' ') end--;
    if (m[0] === '@') {
      const start = localPart(src, end);
      if (start > 0) end = start;
    }
    return end;
  }
  return src.length;
}

const NUMERIC = /&#(?:(\d{1,7})|[Xx]([A-Fa-f0-9]{1,6}));/g;
/** Decodes numeric character references. Like marked, leaves the others to the browser. */
export function decoded(text: string): string {
  NUMERIC.lastIndex = 0;
  if (!NUMERIC.test(text)) return text;
  NUMERIC.lastIndex = 0;
  return text
    .replace(/&(?!#\d{1,7};|#[Xx][a-fA-F0-9]{1,6};|\w{1,40};)/g, '&amp;')
    .replace(NUMERIC, (_, decimal?: string, hex?: string) => {
      const code = decimal ? parseInt(decimal, 10) : parseInt(hex!, 16);
      if (code === 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return '\ufffd';
      return code === 38 ? '&amp;' : String.fromCodePoint(code);
    });
}

/** At most `lines` lines and `units` code units from the start, in whole lines. */
function head(src: string, lines: number, units: number): string {
  let end = 0;
  for (let n = 0; n < lines; n++) {
    const at = src.indexOf('\n', end);
    if (at < 0) return src.length <= units ? src : src.slice(0, end);
    if (at >= units) break;
    end = at + 1;
  }
  return src.slice(0, end);
}
const HEAD_LINES = 16;
const HEAD_UNITS = 2048;

/** Bounded replacements for those of marked's tokenizers that would scan the rest of the text on each attempt. Longer matches are treated as text. */
export const boundedTokenizer = {
  inlineText(this: Tokenizer, src: string) {
    const raw = src.slice(0, textLength(src));
    return { type: 'text' as const, raw, text: decoded(raw), escaped: false };
  },
  table(this: Tokenizer, src: string) {
    const first = src.indexOf('\n');
    if (first < 0) return undefined;
    const second = src.indexOf('\n', first + 1);
    const rows = second < 0 ? src : src.slice(0, second + 1);
    // only a text that starts like a table is read to the end
    return Tokenizer.prototype.table.call(this, rows) && Tokenizer.prototype.table.call(this, src);
  },
  lheading(this: Tokenizer, src: string) {
    (this.lexer as BoundedLexer).chargeJoin(); // tried before each paragraph and each line of an item
    return Tokenizer.prototype.lheading.call(this, head(src, HEAD_LINES, HEAD_UNITS));
  },
  def(this: Tokenizer, src: string) {
    return Tokenizer.prototype.def.call(this, head(src, HEAD_LINES, HEAD_UNITS));
  },
  url(this: Tokenizer, src: string) {
    if (SCHEME.test(src) || MAIL_SCHEME.test(src)) {
      const end = src.search(ADDRESS_END);
      const run = (end < 0 ? src : src.slice(0, end)).replace(/…+$/, '');
      return run.length > URL_MAX ? undefined : Tokenizer.prototype.url.call(this, run);
    }
    const email = EMAIL.exec(src.slice(0, 600))?.[0];
    if (!email) return undefined;
    return {
      type: 'link' as const,
      raw: email,
      text: email,
      href: `mailto:${email}`,
      tokens: [{ type: 'text' as const, raw: email, text: email, escaped: false }],
    };
  },
};

function hasTooManyRuns(src: string): boolean {
  RUN.lastIndex = 0;
  for (let n = 0; RUN.exec(src);) if (++n > RUNS_MAX) return true;
  return false;
}

/** Ends of pieces of at most `PIECE_MAX`, after white space if possible. */
function pieces(src: string): string[] {
  const out: string[] = [];
  let from = 0;
  while (src.length - from > PIECE_MAX) {
    const window = src.slice(from, from + PIECE_MAX);
    const space = Math.max(window.lastIndexOf('\n'), window.lastIndexOf(' '));
    let end = space > 0 ? from + space + 1 : from + PIECE_MAX;
    const unit = src.charCodeAt(end - 1);
    if (unit >= 0xd800 && unit < 0xdc00) end--; // not between the halves of a surrogate pair
    out.push(src.slice(from, end));
    from = end;
  }
  out.push(src.slice(from));
  return out;
}

class BoundedLexer extends Lexer {
  #depth = 0;
  #work = 0;
  #workMax = 0;
  /** Token lists whose text must be shown as typed. */
  #plain = new Set<Token[]>();

  lexBounded(text: string): TokensList {
    const src = text.replace(/\r\n|\r/g, '\n');
    for (let from = 0; from < src.length;) {
      const to = this.#sliceEnd(src, from);
      this.tokens.push(...this.#lexSlice(src.slice(from, to)));
      from = to;
    }
    for (const { src: inline, tokens } of this.inlineQueue) {
      this.state.inRawBlock = false;
      if (hasTooManyRuns(inline)) this.#plain.add(tokens);
      else for (const piece of pieces(inline)) tokens.push(...this.inlineTokens(piece));
    }
    this.inlineQueue = [];
    if (this.#plain.size)
      for (const [i, token] of this.tokens.entries())
        if (this.#hasPlain(token)) this.tokens[i] = plainToken(token.raw);
    return this.tokens;
  }

  #lexSlice(src: string): Token[] {
    this.#work = 0;
    this.#workMax = Math.max(WORK_MIN, src.length * WORK_PER_UNIT);
    const queued = this.inlineQueue.length;
    this.state.top = true;
    try {
      return this.blockTokens(src, []);
    } catch (e) {
      if (!(e instanceof TooMuchWork)) throw e;
      this.inlineQueue.length = queued;
      this.#depth = 0;
      return [plainToken(src)];
    }
  }

  /** End of the next slice: a few whole blocks from `from`. Text is lexed in slices because the cost of lists and quotes grows faster than their length. */
  #sliceEnd(src: string, from: number): number {
    for (let size = SLICE; src.length - from > size; size *= 2) {
      const before = src.lastIndexOf('\n', from + size - 1);
      const line = before >= from ? before : src.indexOf('\n', from + size);
      const end = line < 0 ? src.length : line + 1;
      if (end >= src.length) return src.length;
      const tokens = new BoundedLexer(this.options).#lexSlice(src.slice(from, end));
      const last = tokens.findLastIndex((token) => token.type !== 'space');
      // The last block may continue after the slice.
      if (last > 0) return from + tokens.slice(0, last).reduce((n, token) => n + token.raw.length, 0);
      const type = tokens[last]?.type;
      if (size >= SLICE_MAX && type !== 'code' && type !== 'table') return end;
    }
    return src.length;
  }

  #charge(units: number): void {
    this.#work += units;
    if (this.#work > this.#workMax) throw new TooMuchWork();
  }
  /** Charges for joining a line to the text before it, which copies that text. */
  chargeJoin(): void {
    this.#charge(this.inlineQueue.at(-1)?.src.length ?? 0);
  }

  override blockTokens(src: string, tokens: Token[] = [], lastParagraphClipped = false): TokensList {
    this.#charge(src.length);
    if (this.#depth > NESTING_MAX) {
      this.#plain.add(tokens);
      this.state.top = true; // the same state as after every block
      return tokens as TokensList;
    }
    this.#depth++;
    try {
      return super.blockTokens(src, tokens, lastParagraphClipped) as TokensList;
    } finally {
      this.#depth--;
    }
  }

  #hasPlain(token: Token): boolean {
    if ('tokens' in token && token.tokens && this.#isPlain(token.tokens)) return true;
    if (token.type === 'list') return (token as Tokens.List).items.some((item) => this.#hasPlain(item));
    if (token.type !== 'table') return false;
    const { header, rows } = token as Tokens.Table;
    return [header, ...rows].some((cells) => cells.some((cell) => this.#plain.has(cell.tokens)));
  }
  #isPlain(tokens: Token[]): boolean {
    return this.#plain.has(tokens) || tokens.some((token) => this.#hasPlain(token));
  }
}

export const lexBounded = (text: string, options: MarkedOptions): TokensList =>
  new BoundedLexer(options).lexBounded(text);
