/** Replaces `from`..`to` with `insert`, then selects `start`..`end`. No state, no framework. */
export interface TextEdit {
  from: number;
  to: number;
  insert: string;
  start: number;
  end: number;
}

const MARKS: Record<string, string> = { b: '**', i: '_', e: '`' };

/** Ctrl-B, Ctrl-I, Ctrl-E: adds marks around the selection, or removes them. */
export function toggleMark(text: string, a: number, b: number, key: string): TextEdit | null {
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

/** Applies the edit as typing does, so that the browser can undo it and `input` events fire. */
export function applyEdit(box: HTMLTextAreaElement, edit: TextEdit): void {
  box.setSelectionRange(edit.from, edit.to);
  // Deprecated, but the only way that preserves the undo history.
  const done = edit.insert
    ? document.execCommand('insertText', false, edit.insert)
    : document.execCommand('delete');
  if (!done) {
    box.setRangeText(edit.insert, edit.from, edit.to);
    box.dispatchEvent(new Event('input', { bubbles: true }));
  }
  box.setSelectionRange(edit.start, edit.end);
}
