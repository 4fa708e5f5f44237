/** Completions of the composer for `@`, `#`, `:`, and commands (`/`). No state, no framework. */
export type Sigil = '@' | '#' | ':' | '/';
export interface Trigger {
  sigil: Sigil;
  query: string;
  /** Index of the sigil in the text. */
  start: number;
}
export interface Candidate {
  key: string;
  kind: 'agent' | 'person' | 'group' | 'channel' | 'emoji' | 'command' | 'nobody' | 'then';
  /** Text that replaces the trigger. */
  insert: string;
  title: string;
  /** Additional search text: handle, description. */
  handle: string;
  note: string;
  id?: string;
}

export const MAX = 6;

/**
 * Finds a sigil at the start of a word before the caret, outside of code. Emoji need two letters, so that `12:30` does
 * not open the menu.
 */
export function findTrigger(text: string, caret: number): Trigger | null {
  const head = text.slice(0, caret);
  const m = /(^|[^A-Za-z0-9_\\@#:`/.])([@#:])([\p{L}\p{N}_+-]*)$/u.exec(head);
  if (!m) return null;
  const sigil = m[2] as Sigil;
  const query = m[3]!.toLowerCase();
  if (sigil === ':' && query.length < 2) return null;
  const start = head.length - query.length - 1;
  return inCode(head.slice(0, start)) ? null : { sigil, query, start };
}

/** Checks whether the position is inside an open fence, or after an unpaired backtick on the line. */
function inCode(head: string): boolean {
  const fences = head.match(/^ {0,3}(```|~~~)/gm)?.length ?? 0;
  if (fences % 2) return true;
  const line = head.slice(head.lastIndexOf('\n') + 1);
  return (line.match(/`/g)?.length ?? 0) % 2 === 1;
}

/** Order: prefix of handle or name, prefix of a later word, then anywhere; agents before people on a tie. */
export function rank(c: Candidate, query: string): number {
  const title = c.title.toLowerCase();
  const tie = c.kind === 'agent' || c.kind === 'nobody' ? 0 : c.kind === 'group' ? 2 : 1;
  if (c.handle.startsWith(query) || title.startsWith(query)) return tie;
  if (title.includes(' ' + query) || c.handle.includes('_' + query) || c.handle.includes('-' + query))
    return 3 + tie;
  if (title.includes(query) || c.handle.includes(query)) return 6 + tie;
  return Infinity;
}

export function complete(candidates: Candidate[], query: string): Candidate[] {
  return candidates
    .map((c, i) => ({ c, i, r: rank(c, query) }))
    .filter((x) => x.r !== Infinity)
    .sort((a, b) => a.r - b.r || a.i - b.i)
    .slice(0, MAX)
    .map((x) => x.c);
}

/**
 * Replaces the trigger, adds one space unless a handle follows, and returns the new text and caret position.
 */
export function apply(
  text: string,
  caret: number,
  trigger: Trigger,
  insert: string,
): { text: string; caret: number } {
  const tail = text.slice(caret);
  const isOpen = insert.endsWith('@');
  const head = text.slice(0, trigger.start) + insert + (isOpen || tail.startsWith(' ') ? '' : ' ');
  return { text: head + tail, caret: head.length + (!isOpen && tail.startsWith(' ') ? 1 : 0) };
}
