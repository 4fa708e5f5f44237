/** Closes open Markdown constructs, so that half a **bold or a [link](htt never flashes as raw marks. */
export function completeMarkdown(s: string): string {
  // Considers only the last open bracket, because a search from each earlier one would read to the end of the
  // text again.
  const open = s.lastIndexOf('[');
  if (open >= 0) {
    const from = s[open - 1] === '!' ? open - 1 : open;
    s = s.slice(0, from) + s.slice(from).replace(/^!?\[([^\]\n]*)(\]\([^)\s]*)?$/, '$1');
  }
  const line = s.slice(s.lastIndexOf('\n') + 1);
  if (((line.match(/`/g) ?? []).length & 1) === 1) return s.endsWith('`') ? s.slice(0, -1) : s + '`';
  s = s.replace(/(^|[\s(])(\*{1,2}|_{1,2}|~{1,2})$/, '$1');
  if (((s.match(/\*\*/g) ?? []).length & 1) === 1)
    s = s.endsWith('*') && !s.endsWith('**') ? s + '*' : s + '**';
  return s;
}
