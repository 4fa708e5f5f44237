import DOMPurify from 'dompurify';
import { FormulaQueue, type Formula } from './queue';
import './math.css';

const queue = new FormulaQueue(
  () => new Worker(new URL('./worker.ts', import.meta.url), { type: 'module', name: 'formulas' }),
);

const words = (text: string) => text.split(' ');
const RULES = {
  ALLOWED_TAGS: words(
    'math menclose mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow ms mspace msqrt ' +
      'mstyle msub msubsup msup mtable mtd mtext mtr munder munderover none',
  ),
  // No addresses, styles, classes, or colors.
  ALLOWED_ATTR: words(
    'accent accentunder columnalign columnlines columnspacing depth display displaystyle fence form height ' +
      'largeop linethickness lspace mathvariant maxsize minsize movablelimits notation rowalign rowlines ' +
      'rowspacing rspace scriptlevel separator stretchy symmetric voffset width xmlns',
  ),
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};
/** The last layer: whatever the worker returns, only elements of formulas remain. */
export const sanitized = (html: string): DocumentFragment =>
  DOMPurify.sanitize(html, { ...RULES, RETURN_DOM_FRAGMENT: true });

const CLOSE = { $$: '$$', '\\[': '\\]', '\\(': '\\)' } as const;
type Open = keyof typeof CLOSE;

/** Formulas in a text, with their positions. Linear time. */
export function formulasIn(text: string): (Formula & { from: number; to: number })[] {
  const found: (Formula & { from: number; to: number })[] = [];
  const endless = new Set<Open>();
  const open = /\$\$|\\[[(]/g;
  for (let match = open.exec(text); match; match = open.exec(text)) {
    const mark = match[0] as Open;
    if (endless.has(mark)) continue;
    const from = open.lastIndex;
    let at = from;
    while (at < text.length && !(at > from && text.startsWith(CLOSE[mark], at)))
      at += text[at] === '\\' ? 2 : 1;
    if (at >= text.length) {
      endless.add(mark);
      continue;
    }
    open.lastIndex = at + 2;
    found.push({ source: text.slice(from, at), display: mark !== '\\(', from: match.index, to: at + 2 });
  }
  return found;
}

const withoutMargins = (text: string) => text.replace(/[\s>]/g, '');

interface Site extends Formula {
  /** Replaces what is shown now. */
  draw: (formula: HTMLElement) => void;
}

/** Parts of a block between its elements other than line breaks. */
function* runsIn(parent: Element): Generator<ChildNode[]> {
  let run: ChildNode[] = [];
  for (const node of parent.childNodes) {
    if (node.nodeType === Node.TEXT_NODE || node.nodeName === 'BR') run.push(node);
    else {
      yield run;
      run = [];
    }
  }
  yield run;
}
function rangeOf(run: readonly ChildNode[], from: number, to: number): Range {
  const range = document.createRange();
  let at = 0;
  for (const node of run) {
    const length = node instanceof Text ? node.length : 1;
    if (from >= at && from < at + length && node instanceof Text) range.setStart(node, from - at);
    if (to > at && to <= at + length && node instanceof Text) range.setEnd(node, to - at);
    at += length;
  }
  return range;
}

/** Further formulas of a message stay as typed. */
const FORMULAS_MAX = 200;
const SKIPPED = 'code, pre, a, button, figure, .as-typed, .formula';
/** Formulas of rendered Markdown that are still text. */
function sitesIn(root: Element, source: string): Site[] {
  const typed = withoutMargins(source);
  const sites: Site[] = [];
  for (const parent of [root, ...root.querySelectorAll('*')]) {
    if (parent.closest(SKIPPED) || !/\$\$|\\[([]/.test(parent.textContent)) continue;
    for (const run of runsIn(parent)) {
      if (sites.length >= FORMULAS_MAX) return sites;
      const text = run.map((node) => (node instanceof Text ? node.data : '\n')).join('');
      for (const { from, to, ...formula } of formulasIn(text).slice(0, FORMULAS_MAX - sites.length)) {
        // An escaped mark is shown without its backslash.
        if (!typed.includes(withoutMargins(text.slice(from, to)))) continue;
        const range = rangeOf(run, from, to); // follows changes before it
        const draw = (drawn: HTMLElement) => {
          if (range.collapsed) return; // drawn in the meantime, or painted again
          range.deleteContents();
          range.insertNode(drawn);
        };
        sites.push({ ...formula, draw });
      }
    }
  }
  for (const code of root.querySelectorAll<HTMLElement>('code[data-lang="math"]')) {
    const pre = code.closest('pre');
    if (!pre || pre.hidden) continue;
    const draw = (drawn: HTMLElement) => {
      if (pre.hidden) return;
      pre.hidden = true; // still copied by its button
      pre.after(drawn);
    };
    sites.push({ source: code.textContent, display: true, draw });
  }
  return sites;
}

/** Longer formulas in a line scroll. */
const LONG = 40;
function elementFor({ source, display }: Formula, html: string): HTMLElement | null {
  const math = sanitized(html);
  if (!math.querySelector('math')) return null;
  const element = document.createElement('span');
  const wide = display || source.length > LONG;
  element.className = `formula${display ? ' display' : wide ? ' wide' : ''}`;
  if (wide) {
    element.tabIndex = 0;
    element.setAttribute('role', 'group');
    element.setAttribute('aria-label', 'Formula');
  }
  element.append(math);
  return element;
}

/** Draws the formulas of a rendered message; those that cannot be drawn stay as typed. */
export async function drawFormulas(root: Element, source: string): Promise<void> {
  const sites = sitesIn(root, source);
  const draw = (site: Site, html: string | null | undefined) => {
    const element = html ? elementFor(site, html) : null;
    if (element && root.isConnected) site.draw(element);
  };
  // Rows that are mounted again change nothing after the first paint.
  const waiting = sites.filter((site) => {
    const html = queue.known(site);
    draw(site, html);
    return html === undefined;
  });
  for (const site of waiting) draw(site, await queue.render(site));
}
