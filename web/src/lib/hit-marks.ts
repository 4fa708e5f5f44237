/** Names of the highlights in `FindBar`. */
const ALL = 'find-hit';
const CURRENT = 'find-current';

const literal = (word: string) => word.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
/** Matches whole words of a hit; null if it has none. */
export function wordsPattern(words: readonly string[]): RegExp | null {
  const found = [...new Set(words.map((word) => word.trim()).filter(Boolean))];
  if (!found.length) return null;
  found.sort((a, b) => b.length - a.length);
  return new RegExp(`(?<![\\p{L}\\p{N}])(?:${found.map(literal).join('|')})(?![\\p{L}\\p{N}])`, 'giu');
}

/** Ranges of the matches in an element's text. */
function rangesIn(root: Element, pattern: RegExp): Range[] {
  const ranges: Range[] = [];
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode as Text;
    for (const match of node.data.matchAll(pattern)) {
      const range = new Range();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      ranges.push(range);
    }
  }
  return ranges;
}

/** Words of the hits by message, and the current hit. */
export interface Hits {
  patterns: ReadonlyMap<string, RegExp>;
  current: string | null;
}

/**
 * Marks hits in the messages of a conversation with the browser's own highlights, which do not change the document. Rows
 * that are mounted or painted later are marked, too. Does nothing in browsers without highlights.
 */
export class HitMarks {
  #zone: Element;
  #hits: Hits = { patterns: new Map(), current: null };
  #observer = new MutationObserver(() => this.#schedule());
  #frame = 0;

  constructor(zone: Element) {
    this.#zone = zone;
    this.#observer.observe(zone, { childList: true, subtree: true, characterData: true });
  }
  show(hits: Hits): void {
    this.#hits = hits;
    this.#schedule();
  }
  stop(): void {
    this.#observer.disconnect();
    cancelAnimationFrame(this.#frame);
    if (!('highlights' in CSS)) return;
    CSS.highlights.delete(ALL);
    CSS.highlights.delete(CURRENT);
  }
  #schedule(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#mark());
  }
  #mark(): void {
    if (!('highlights' in CSS)) return;
    const { patterns, current } = this.#hits;
    const all: Range[] = [];
    const now: Range[] = [];
    for (const row of this.#zone.querySelectorAll('article.msg')) {
      const id = row.id.slice('m-'.length);
      const pattern = patterns.get(id);
      if (!pattern) continue;
      for (const body of row.querySelectorAll('.prose'))
        (id === current ? now : all).push(...rangesIn(body, pattern));
    }
    CSS.highlights.set(ALL, new Highlight(...all));
    CSS.highlights.set(CURRENT, new Highlight(...now));
  }
}
