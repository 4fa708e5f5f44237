/** Replaces `from`..`to` with `insert`, then selects `start`..`end`. No state, no framework. */
export interface TextEdit {
  from: number;
  to: number;
  insert: string;
  start: number;
  end: number;
}

const MARKS: Record<string, string> = { b: '**', i: '_', e: '`' };

/** Ctrl-B, Ctrl-I, Ctrl-E: adds marks around the selection, or removes them. Ctrl-K: makes it a link. */
export function toggleMark(text: string, a: number, b: number, key: string): TextEdit | null {
  if (key === 'k') return linkTo(text, a, b);
  const mark = MARKS[key];
  if (!mark) return null;
  const n = mark.length;
  const chosen = text.slice(a, b);
  if (a >= n && text.slice(a - n, a) === mark && text.slice(b, b + n) === mark)
    return { from: a - n, to: b + n, insert: chosen, start: a - n, end: b - n };
  if (chosen.length >= 2 * n && chosen.startsWith(mark) && chosen.endsWith(mark))
    return { from: a, to: b, insert: chosen.slice(n, -n), start: a, end: b - 2 * n };
  return { from: a, to: b, insert: mark + chosen + mark, start: a + n, end: b + n };
}

const ITEM = /^(\s*)(?:([-*+])|(\d{1,9})([.)]))( +)(\[[ xX]\] +)?(.*)$/;

/** A new line in a list starts the next item; in an empty item, it ends the list. */
export function continueList(text: string, a: number, b: number): TextEdit | null {
  const start = text.lastIndexOf('\n', a - 1) + 1;
  const item = ITEM.exec(text.slice(start, a));
  if (!item || a !== b) return null;
  const [, indent, bullet, number, dot, gap, box, rest] = item;
  if (!rest?.trim()) {
    if (text.slice(a).split('\n', 1)[0]!.trim()) return null;
    return { from: start, to: a, insert: '', start, end: start };
  }
  const sign = bullet ?? `${Number(number) + 1}${dot}`;
  const insert = `\n${indent}${sign}${gap}${box ? '[ ] ' : ''}`;
  return { from: a, to: a, insert, start: a + insert.length, end: a + insert.length };
}

const URL_ALONE = /^https?:\/\/[^\s<>]+$/;

/** A URL pasted over selected words becomes a link with these words. */
export function linkSelection(text: string, a: number, b: number, pasted: string): TextEdit | null {
  const url = pasted.trim();
  const words = text.slice(a, b);
  if (!URL_ALONE.test(url) || !words.trim() || /[\n[\]]/.test(words) || URL_ALONE.test(words.trim()))
    return null;
  const insert = `[${words}](${url.replace(/[()]/g, (c) => (c === '(' ? '%28' : '%29'))})`;
  return { from: a, to: b, insert, start: a + insert.length, end: a + insert.length };
}

/** Selected words become a link whose address is typed next; without words, the key has its other meaning. */
function linkTo(text: string, a: number, b: number): TextEdit | null {
  const words = text.slice(a, b);
  if (!words.trim() || /\n\s*\n/.test(words)) return null;
  if (URL_ALONE.test(words.trim())) {
    const insert = `[](${words.trim()})`;
    return { from: a, to: b, insert, start: a + 1, end: a + 1 };
  }
  const insert = `[${words.replace(/[[\]]/g, '\\$&')}]()`;
  return { from: a, to: b, insert, start: a + insert.length - 1, end: a + insert.length - 1 };
}

/** Fewer lines are not worth a block. */
const CODE_LINES_MIN = 3;
const CODE_LINES_MAX = 400;
const CODE_CHARS_MAX = 200;
const CODE_LINE =
  /^(?:\t| {2,})\S|[{};]$|^[\]})]+[,;)]*$|^(?:import|export|from|const|let|var|function|class|def|return|if|for|while|fn|pub|use|func|package|public|private|select|insert|update|create|#include|#!|\/\/|\$ )(?=\W|$)|=>|\w\(.*\)|^<\/?[a-z][^>]*>|^[+-]{3} |^@@ /i;

/** Checks for text that is probably code: at least half of its lines look like it. */
export function isCode(text: string): boolean {
  // The beginnings decide, so that a large text takes no longer.
  const lines = text
    .split('\n', CODE_LINES_MAX)
    .map((line) => line.slice(0, CODE_CHARS_MAX))
    .filter((line) => line.trim());
  if (lines.length < CODE_LINES_MIN || /^ {0,3}(?:```|~~~)/m.test(text)) return false;
  // Items of a list may be indented, too.
  const code = lines.filter((line) => !/^\s*(?:[-*+]|\d+[.)]) /.test(line) && CODE_LINE.test(line.trimEnd()));
  return code.length * 2 >= lines.length;
}

/** Puts pasted code, which ends at `end`, into a code block; null if it is there no more, or already in one. */
export function codePasted(text: string, end: number, pasted: string): TextEdit | null {
  const from = end - pasted.length;
  const before = text.slice(0, Math.max(from, 0));
  if (from < 0 || text.slice(from, end) !== pasted) return null;
  if ((before.match(/^ {0,3}(?:```|~~~)/gm)?.length ?? 0) % 2) return null;
  const fence = '`'.repeat(Math.max(3, ...[...pasted.matchAll(/`+/g)].map((run) => run[0].length + 1)));
  const lead = before === '' || before.endsWith('\n') ? '' : '\n';
  const insert = `${lead}${fence}\n${pasted.replace(/\n$/, '')}\n${fence}\n`;
  return { from, to: end, insert, start: from + insert.length, end: from + insert.length };
}

/** Shows a text with a button. */
type Offer = (text: string, action: { label: string; run: () => void }) => void;

/** Handles pasted text: true if it was inserted as a link. Otherwise it is pasted, and code can become a block. */
export function pasteText(box: HTMLTextAreaElement, pasted: string, offer: Offer): boolean {
  const { selectionStart: a, selectionEnd: b } = box;
  const link = linkSelection(box.value, a, b, pasted);
  if (link) applyEdit(box, link);
  const text = pasted.replace(/\r\n?/g, '\n');
  const end = a + text.length;
  const after = box.value.slice(0, a) + text + box.value.slice(b);
  if (link || !isCode(text) || !codePasted(after, end, text)) return !!link;
  const run = () => {
    const edit = box.isConnected ? codePasted(box.value, end, text) : null;
    if (!edit) return;
    box.focus();
    applyEdit(box, edit);
  };
  offer(`Pasted ${text.replace(/\n$/, '').split('\n').length} lines`, { label: 'Paste as code', run });
  return false;
}

/** Replaces what differs in the text, so that the browser can undo it. */
export function setText(box: HTMLTextAreaElement, value: string, caret: number): void {
  const old = box.value;
  const max = Math.min(old.length, value.length);
  let from = 0;
  while (from < max && old[from] === value[from]) from++;
  let same = 0;
  while (same < max - from && old.at(-1 - same) === value.at(-1 - same)) same++;
  const to = old.length - same;
  box.focus();
  if (old === value) box.setSelectionRange(caret, caret);
  else applyEdit(box, { from, to, insert: value.slice(from, value.length - same), start: caret, end: caret });
}

/** Applies the edit as typing does, so that the browser can undo it and `input` events fire. */
export function applyEdit(box: HTMLTextAreaElement, edit: TextEdit): void {
  box.setSelectionRange(edit.from, edit.to);
  // Deprecated, but the only way that preserves the undo history. It edits whatever has the focus.
  const done =
    document.activeElement === box &&
    (edit.insert ? document.execCommand('insertText', false, edit.insert) : document.execCommand('delete'));
  if (!done) {
    box.setRangeText(edit.insert, edit.from, edit.to);
    box.dispatchEvent(new Event('input', { bubbles: true }));
  }
  box.setSelectionRange(edit.start, edit.end);
}
