/* Prepares a text for the Markdown parser exactly as the server does, which explains it: src/chat/reading.rs. */

/** Start of the private characters: the separator; the one for an ASCII character is as far behind it as its code. */
const PRIVATE = 0x10fe00;
const SEPARATOR = String.fromCodePoint(PRIVATE);
const HIDDEN = /[\u{10fe00}-\u{10fe7f}]/gu;
/** The two halves of a private character, as two replacement characters: lengths stay the same. */
const UNKNOWN = '\ufffd\ufffd';

/** List numbers above this one, such as years, begin a list only after another item. */
const LIST_NUMBER_MAX = 999;
const SHRUG = '\\_(ツ)_/¯';
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const LETTER = /[\p{L}\p{N}]/u;
/** Characters of scripts that are written without spaces, and their punctuation. */
const CJK =
  /[\p{sc=Han}\p{sc=Hangul}\p{sc=Bopomofo}\p{sc=Hiragana}\p{sc=Katakana}\u3000-\u30ff\u3200-\u33ff\ufe10-\ufe1f\ufe30-\ufe6f\uff00-\uffef]/u;
const VARIATION_SELECTOR = /[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/u;
const NAME = /__[A-Za-z0-9]+__(?=\.[A-Za-z])/y;
const LIST_NUMBER = /^(\d{1,9})[.)](?:[ \t]|$)/;
const CONTAINERS = /^[ \t>]*(?:[-+*][ \t][ \t>]*)*/;
const FENCE = /^(?:(`{3,})[^`]*$|(~{3,}))/;

const shownAs = (hidden: string): string => {
  const code = hidden.codePointAt(0)! - PRIVATE;
  return code ? String.fromCharCode(code) : '';
};
/** Undoes the preparation. */
export const restore = (text: string): string => text.replace(HIDDEN, shownAs);
/** Undoes the preparation in HTML. */
export const restoreHtml = (html: string, escape: (text: string) => string): string =>
  html.replace(HIDDEN, (hidden) => escape(shownAs(hidden)));

/** The character before `at`, or ''. */
function before(text: string, at: number): string {
  const unit = text.charCodeAt(at - 1);
  const pair = unit >= 0xdc00 && unit < 0xe000 && at > 1;
  return text.slice(pair ? at - 2 : Math.max(at - 1, 0), at);
}
const after = (text: string, at: number): string =>
  at < text.length ? String.fromCodePoint(text.codePointAt(at)!) : '';

type Math = '\\)' | '\\]' | '$$';

class Scanner {
  #text: string;
  #out = '';
  /** The text up to here is in `#out`. */
  #done = 0;
  #lineEnd = 0;
  #paragraphEnd = 0;
  /** Fence that closes the open code block. */
  #fence = '';
  #isQuote = false;
  #isList = false;
  #followsBlank = false;
  /** For each kind of formula, the position up to which no formula ends. */
  #noEnd: Record<Math, number> = { '\\)': 0, '\\]': 0, $$: 0 };
  /** Start of the last run of backticks by length, in the paragraph that ends at `#backticksTo`. */
  #backticks = new Map<number, number>();
  #backticksTo = -1;

  constructor(text: string) {
    this.#text = text;
  }

  scan(): string {
    const text = this.#text;
    for (let at = 0; at < text.length;) {
      if (at >= this.#lineEnd) {
        this.#lineEnd = this.#endOfLine(at);
        if (this.#skipsLine(at)) {
          at = this.#lineEnd;
          continue;
        }
      }
      at = this.#step(at);
    }
    return this.#out + text.slice(this.#done);
  }
  #step(at: number): number {
    const text = this.#text;
    switch (text[at]) {
      case '\\':
        return this.#backslash(at);
      case '`':
        return this.#code(at);
      case '$':
        return text[at + 1] === '$' ? (this.#formula(at, '$$') ?? at + 2) : at + 1;
      case '*':
      case '~':
        return this.#run(at);
      case '_':
        return this.#underscores(at);
      case '\udbff': {
        // The first half of the private characters.
        const c = after(text, at);
        if (c.match(HIDDEN)) this.#replace(at, at + c.length, UNKNOWN);
        return at + c.length;
      }
      default:
        return at + 1;
    }
  }

  #replace(from: number, to: number, by: string): void {
    if (from < this.#done) return;
    this.#out += this.#text.slice(this.#done, from) + by;
    this.#done = to;
  }
  #hide(at: number): void {
    this.#replace(at, at + 1, String.fromCodePoint(PRIVATE + this.#text.charCodeAt(at)));
  }
  #endOfLine(at: number): number {
    const newline = this.#text.indexOf('\n', at);
    return newline < 0 ? this.#text.length : newline + 1;
  }
  #runLength(at: number, mark: string, limit = this.#text.length): number {
    let end = at;
    while (end < limit && this.#text[end] === mark) end++;
    return end - at;
  }

  /** Reads the beginning of a line; returns true if the line is part of a fenced code block. */
  #skipsLine(at: number): boolean {
    const line = this.#text.slice(at, this.#lineEnd).replace(/\r?\n$/, '');
    if (this.#fence) {
      const rest = line.replace(/^[ \t>]+/, '').trimEnd();
      const isEnd = rest.length >= this.#fence.length && rest === this.#fence[0]!.repeat(rest.length);
      if (isEnd) this.#fence = '';
      return true;
    }
    this.#isQuote = line.trimStart().startsWith('>');
    const margin = CONTAINERS.exec(line)![0].length;
    const rest = line.slice(margin);
    const fence = FENCE.exec(rest);
    this.#fence = fence?.[1] ?? fence?.[2] ?? '';
    if (this.#fence) return true;
    this.#listNumber(at + margin, line, rest);
    return false;
  }
  /** Hides the period of a number that is too high for the first item of a list. */
  #listNumber(at: number, line: string, rest: string): void {
    const digits = LIST_NUMBER.exec(rest)?.[1];
    if (digits !== undefined) {
      if (this.#isList || Number(digits) <= LIST_NUMBER_MAX) this.#isList = true;
      else this.#hide(at + digits.length);
    } else if (!line.trim()) {
      this.#followsBlank = true;
      return;
    } else if (this.#followsBlank && !/^[ \t]/.test(line)) this.#isList = false;
    this.#followsBlank = false;
  }

  #backslash(at: number): number {
    const text = this.#text;
    const next = text[at + 1] ?? '';
    const end = next === '(' ? this.#formula(at, '\\)') : next === '[' ? this.#formula(at, '\\]') : null;
    if (end !== null) return end;
    if (text.startsWith(SHRUG, at) && text[at - 1] === '¯') {
      const shrugged = at + SHRUG.length;
      for (const mark of [at, at + 1, shrugged - 3]) this.#hide(mark);
      return shrugged;
    }
    return at + (PUNCTUATION.test(next) ? 2 : 1);
  }

  /** End of the paragraph that contains `at`. */
  #endOfParagraph(at: number): number {
    if (at >= this.#paragraphEnd) {
      let end = this.#endOfLine(at);
      while (end < this.#text.length) {
        const next = this.#endOfLine(end);
        if (/^[ \t\r\n>]*$/.test(this.#text.slice(end, next))) break;
        end = next;
      }
      this.#paragraphEnd = end;
    }
    return this.#paragraphEnd;
  }

  /** Skips a code span. */
  #code(at: number): number {
    const length = this.#runLength(at, '`');
    const limit = this.#endOfParagraph(at);
    if (this.#backticksTo !== limit) {
      this.#backticks = new Map();
      this.#backticksTo = limit;
      for (let start = at; start < limit;) {
        const run = this.#runLength(start, '`', limit);
        if (run) this.#backticks.set(run, start);
        start += run || 1;
      }
    }
    let next = at + length;
    if ((this.#backticks.get(length) ?? -1) < next) return next;
    while (next < limit) {
      const run = this.#runLength(next, '`', limit);
      next += run || 1;
      if (run === length) break;
    }
    this.#reach(next);
    return next;
  }

  /** Continues behind a part that may span several lines. */
  #reach(end: number): void {
    if (end > this.#lineEnd) this.#lineEnd = this.#endOfLine(end - 1);
  }

  /** Hides the marks in a formula that starts at `at`; returns its end. */
  #formula(at: number, close: Math): number | null {
    const text = this.#text;
    const from = at + 2;
    if (from < this.#noEnd[close]) return null;
    const limit = close === '\\)' ? this.#lineEnd : this.#endOfParagraph(at);
    let next = from;
    for (;;) {
      if (next >= limit) {
        this.#noEnd[close] = limit;
        return null;
      }
      if (next > from && next + 2 <= limit && text.startsWith(close, next)) break;
      next += text[next] === '\\' ? 2 : 1;
    }
    const end = next + 2;
    // Brackets of an escaped link.
    if (close === '\\]' && /[([]/.test(text[end] ?? '')) {
      this.#noEnd[close] = next;
      return null;
    }
    let isMargin = false;
    for (let n = at; n < end; n++) {
      const c = text[n]!;
      isMargin =
        c === '\n' || (isMargin && (c === ' ' || c === '\t')) || (isMargin && c === '>' && this.#isQuote);
      if (!isMargin && PUNCTUATION.test(c)) this.#hide(n);
    }
    this.#reach(end);
    return end;
  }

  /** A run of `*` or `~`. */
  #run(at: number): number {
    const text = this.#text;
    const mark = text[at]!;
    const length = this.#runLength(at, mark);
    const end = at + length;
    const isDigit = (n: number) => /[0-9]/.test(text[n] ?? '');
    if (mark === '~' && length === 1) this.#hide(at);
    else if (length === 1 && isDigit(at - 1) && isDigit(end)) this.#hide(at);
    else if (mark === '*' || length === 2) this.#separateCjk(at, end);
    return end;
  }
  /** Lets a run of marks next to a CJK character open and close emphasis. */
  #separateCjk(start: number, end: number): void {
    const text = this.#text;
    const left = before(text, start);
    const right = after(text, end);
    if (!left || !right) return;
    const base = (VARIATION_SELECTOR.test(left) && before(text, start - left.length)) || left;
    if (/\s/.test(left) || /\s/.test(right) || !(CJK.test(base) || CJK.test(right))) return;
    if (!LETTER.test(left)) this.#replace(start, start, SEPARATOR);
    if (!LETTER.test(right)) this.#replace(end, end, SEPARATOR);
  }

  /** Hides the underscores of names such as `__init__.py`. */
  #underscores(at: number): number {
    const text = this.#text;
    NAME.lastIndex = at;
    const name = /^\s?$/.test(before(text, at)) ? NAME.exec(text)?.[0] : undefined;
    if (!name) return at + this.#runLength(at, '_');
    const close = at + name.length - 2;
    for (const mark of [at, at + 1, close, close + 1]) this.#hide(mark);
    return close + 2;
  }
}

/** The text as the Markdown parser must read it. Linear time. */
export const prepare = (text: string): string => new Scanner(text).scan();
