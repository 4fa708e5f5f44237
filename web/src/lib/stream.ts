import { highlightIn } from './enhance';
import { clean, codeBlock, lex, plainBlock, renderTokens, type Names } from './markdown';
import { completeMarkdown } from './complete-markdown';

const HALF_MARKER = /^ {0,3}(\d{1,9}[.)]?|[-*+])?$/;
const OPEN_FENCE = /^ {0,3}(`{3,}|~{3,})([^\n`]*)\n?/;
/** A longer open block is plain text until it closes, because each delta would render it again. */
const OPEN_BLOCK_MAX = 8 * 1024;
/** Growth of the block between two checks for its end, so that all checks together take linear time. */
const GROWTH = 1.5;

/**
 * Append-only rendering of growing Markdown.
 * Closed blocks are written once and never touched again; only the last block is parsed again.
 * Inside an open code fence, text is only appended to one text node, and highlighted once, at the end.
 */
export class StreamRenderer {
  #root: HTMLElement;
  #names: Names;
  #live: HTMLElement;
  #done = 0;
  #seen = '';
  #code: Text | null = null;
  #codeAt = 0;
  /** Offset up to which no line closes the open fence. */
  #codeChecked = 0;
  #fence = '';
  /** The open block, while it is too long to be rendered with every delta. */
  #long: Text | null = null;
  #longAt = 0;
  #nextCheck = 0;
  #blank = false;
  #over = false;

  constructor(root: HTMLElement, names: Names) {
    this.#root = root;
    this.#names = names;
    this.#live = this.#block();
  }
  #block(): HTMLElement {
    const el = document.createElement('div');
    el.className = 'blk';
    this.#root.append(el);
    return el;
  }

  /** `text` is the whole text so far; `final` marks the end. */
  update(text: string, final = false): void {
    if (this.#over || (text === this.#seen && !final)) return;
    // The final text may differ from the streamed one (such as a removed label): then everything is painted again.
    if (!text.startsWith(this.#seen)) this.#reset();
    this.#over = final;
    this.#seen = text;
    if (this.#code && !final && this.#appendCode(text)) return;
    if (this.#long && !final && this.#appendLong(text)) return;
    this.#code = null;
    this.#long = null;
    try {
      this.#parse(text, final);
    } catch {
      // Shows the text as it is, so that any text stays readable.
      this.#over = true;
      this.#root.innerHTML = clean(plainBlock(text));
    }
  }

  /** Returns true while the fence stays open. Holds back text that may be the closing fence. */
  #appendCode(text: string): boolean {
    const rest = text.slice(this.#codeChecked);
    if (new RegExp(`(^|\\n) {0,3}${this.#fence}[ \\t]*(\\n|$)`).test(rest)) return false;
    const hold = /^ {0,3}[`~]*$/.test(rest.slice(rest.lastIndexOf('\n') + 1));
    const line = this.#codeChecked + rest.lastIndexOf('\n') + 1;
    const end = hold && line > this.#codeAt ? line - 1 : text.length;
    const have = this.#codeAt + this.#code!.length;
    if (end > have) this.#code!.appendData(text.slice(have, end));
    if (rest.includes('\n')) this.#codeChecked = line;
    return true;
  }

  /** Returns true while the long block may still be open: a blank line may have closed it. */
  #appendLong(text: string): boolean {
    const have = this.#longAt + this.#long!.length;
    this.#blank ||= /\n[ \t]*\n/.test(text.slice(have - 1));
    if (this.#blank && text.length >= this.#nextCheck) return false;
    this.#long!.appendData(text.slice(have));
    return true;
  }
  #openLong(raw: string): void {
    this.#live.innerHTML = clean(plainBlock(''));
    const el = this.#live.querySelector('[dir]')!;
    this.#long = el.appendChild(document.createTextNode(raw));
    this.#longAt = this.#done;
    this.#blank = false;
    this.#nextCheck = this.#done + raw.length * GROWTH;
  }

  #parse(text: string, final: boolean): void {
    const tokens = lex(text.slice(this.#done), this.#names);
    let last = tokens.length - 1;
    while (last > 0 && tokens[last]!.type === 'space') last--;
    // "2" after a list may become "2. ": the list is not closed yet.
    if (!final && last > 0 && HALF_MARKER.test(tokens[last]!.raw) && tokens[last - 1]!.type === 'list')
      return;
    for (let i = 0; i < last; i++) {
      const t = tokens[i]!;
      this.#done += t.raw.length;
      if (t.type === 'space') continue;
      this.#write([t]);
      this.#live = this.#block();
    }
    const t = tokens[last];
    if (!t) return;
    if (final) {
      this.#write([t]);
      return this.#check(text);
    }
    const open = t.type === 'code' ? OPEN_FENCE.exec(t.raw) : null;
    if (open && t.raw.includes('\n') && !new RegExp(`\\n {0,3}${open[1]}[ \\t]*\\n?$`).test(t.raw)) {
      this.#live.innerHTML = clean(codeBlock(open[2]!.trim().split(/\s/)[0] ?? '', ''));
      const body = t.raw.slice(open[0].length);
      this.#codeChecked = this.#done + open[0].length;
      this.#code = this.#live.querySelector('code')!.appendChild(document.createTextNode(body));
      this.#codeAt = this.#done + open[0].length;
      this.#fence = open[1]!;
      return;
    }
    if (t.raw.length > OPEN_BLOCK_MAX) return this.#openLong(text.slice(this.#done));
    const tail = t.type === 'code' ? t.raw : completeMarkdown(t.raw);
    this.#live.innerHTML = renderTokens(lex(tail, this.#names), this.#names);
  }

  #write(tokens: Parameters<typeof renderTokens>[0]): void {
    this.#live.innerHTML = renderTokens(tokens, this.#names, { expanded: true });
    highlightIn(this.#live);
  }
  /** Compares the number of blocks with a full parse; if they differ, paints everything once. */
  #check(text: string): void {
    const whole = lex(text, this.#names).filter((x) => x.type !== 'space');
    if (whole.length === this.#root.children.length) return;
    this.#root.replaceChildren();
    for (const x of whole) {
      this.#live = this.#block();
      this.#write([x]);
    }
  }
  #reset(): void {
    this.#root.replaceChildren();
    this.#live = this.#block();
    this.#done = 0;
    this.#seen = '';
    this.#code = null;
    this.#long = null;
  }
}
