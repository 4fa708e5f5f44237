import { highlightIn } from './enhance';
import { clean, codeBlock, lex, renderTokens, type Names } from './markdown';
import { mend } from './mend';

const HALF_MARKER = /^ {0,3}(\d{1,9}[.)]?|[-*+])?$/;
const OPEN_FENCE = /^ {0,3}(`{3,}|~{3,})([^\n`]*)\n?/;

/**
 * Append-only rendering of growing Markdown.
 * Closed blocks are written once and never touched again; only the last block is parsed anew.
 * Inside an open code fence not even that: text is appended to one text node, and highlighted once, at the end.
 */
export class StreamRenderer {
  #root: HTMLElement;
  #names: Names;
  #live: HTMLElement;
  #done = 0;
  #seen = '';
  #code: Text | null = null;
  #codeAt = 0;
  #fence = '';
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

  /** `text` is the whole text so far; `final` says that no more will come. */
  update(text: string, final = false): void {
    if (this.#over || (text === this.#seen && !final)) return;
    // The end may differ from what was streamed (a label taken off the head): then nothing drawn can be kept.
    if (!text.startsWith(this.#seen)) this.#reset();
    this.#over = final;
    this.#seen = text;
    if (this.#code && !final && this.#appendCode(text)) return;
    this.#code = null;
    this.#parse(text, final);
  }

  /** True while the fence stays open. A possible closing fence is held back. */
  #appendCode(text: string): boolean {
    const rest = text.slice(this.#codeAt);
    if (new RegExp(`(^|\\n) {0,3}${this.#fence}[ \\t]*(\\n|$)`).test(rest)) return false;
    const hold = /\n {0,3}[`~]*$/.exec(rest);
    const safe = hold ? rest.slice(0, hold.index) : rest;
    this.#code!.appendData(safe.slice(this.#code!.length));
    return true;
  }

  #parse(text: string, final: boolean): void {
    const tokens = lex(text.slice(this.#done), this.#names);
    let last = tokens.length - 1;
    while (last > 0 && tokens[last]!.type === 'space') last--;
    // "2" after a list may be about to become "2. ": the list is not closed yet.
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
      this.#code = this.#live.querySelector('code')!.appendChild(document.createTextNode(body));
      this.#codeAt = this.#done + open[0].length;
      this.#fence = open[1]!;
      return;
    }
    const tail = t.type === 'code' ? t.raw : mend(t.raw);
    this.#live.innerHTML = renderTokens(lex(tail, this.#names), this.#names);
  }

  #write(tokens: Parameters<typeof renderTokens>[0]): void {
    this.#live.innerHTML = renderTokens(tokens, this.#names);
    highlightIn(this.#live);
  }
  /** The same number of blocks as a whole parse, or paint it whole, once. */
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
  }
}
