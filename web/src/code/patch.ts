/** Parser for patches as `git diff --binary` writes them. Their texts come from agents, so nothing in them is trusted. */

export interface PatchLine {
  sign: ' ' | '+' | '-';
  /** Number of the line before the change; 0 if it was added. */
  old: number;
  /** Number of the line after the change; 0 if it was removed. */
  now: number;
  text: string;
  /** True if the file ends after this line without a line break. */
  bare: boolean;
}
export interface Hunk {
  /** Text of the line that starts the hunk. */
  header: string;
  lines: PatchLine[];
}
export type FileStatus = 'added' | 'modified' | 'deleted' | 'renamed' | 'copied';
export interface PatchFile {
  path: string;
  /** Former path of a renamed or copied file. */
  old_path: string | null;
  status: FileStatus;
  additions: number;
  deletions: number;
  binary: boolean;
  /** Changes that are not lines: of modes, links, and binary content, and anything that was not understood. */
  notes: string[];
  hunks: Hunk[];
  /** Hashes of the content before and after, as git writes them; blank if the content is the same. */
  index: string;
}

const HUNK = /^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@/;
const NOTES_MAX = 20;
const NOTE_CHARS_MAX = 300;
const MODES: Partial<Record<string, string>> = {
  '100755': 'Executable',
  '120000': 'Symbolic link',
  '160000': 'Submodule',
};
const ESCAPES: Record<string, number> = { a: 7, b: 8, t: 9, n: 10, v: 11, f: 12, r: 13, '"': 34, '\\': 92 };

/** Path as git quotes it if it has unusual characters: `"a/\303\251"`. */
function unquoted(text: string): string {
  if (!/^".*"$/s.test(text)) return text;
  const bytes: number[] = [];
  const encoder = new TextEncoder();
  for (const [, octal, escape, plain] of text.slice(1, -1).matchAll(/\\([0-7]{3})|\\(.)|([^\\]+)/gsu)) {
    if (octal) bytes.push(parseInt(octal, 8) & 255);
    else if (escape) bytes.push(...(escape in ESCAPES ? [ESCAPES[escape]!] : encoder.encode(escape)));
    else bytes.push(...encoder.encode(plain));
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}
/** Path of a line such as `--- a/x`; null for a file that does not exist. A path with a space ends with a tab. */
function pathOf(text: string): string | null {
  const path = unquoted(text.replace(/\t$/, ''));
  return path === '/dev/null' ? null : path.replace(/^[ab]\//, '');
}
/** Path in a line `diff --git a/x b/x`, which counts only if no other line has it. */
function pathOfBoth(text: string): string {
  const quoted = / ("b\/.*")$/s.exec(text);
  if (quoted) return pathOf(quoted[1]!) ?? '';
  const half = (text.length - 1) / 2;
  const isTwice = text[half] === ' ' && text.slice(2, half) === text.slice(half + 3);
  return isTwice ? text.slice(2, half) : text.slice(text.indexOf(' b/') + 3);
}

/** Reads a patch in steps, so that a large one does not block the page. */
export class PatchParser {
  readonly files: PatchFile[] = [];
  #text: string;
  #at = 0;
  #file: PatchFile | null = null;
  #hunk: Hunk | null = null;
  /** Numbers of the next lines, and how many lines the hunk still has. */
  #old = 0;
  #now = 0;
  #oldLeft = 0;
  #nowLeft = 0;
  #oldMode = '';

  constructor(text: string) {
    this.#text = text;
  }
  /** Reads at most this many lines. Returns false at the end of the patch. */
  step(lines: number): boolean {
    for (let n = 0; n < lines; n++) {
      if (this.#at >= this.#text.length) return false;
      const end = this.#text.indexOf('\n', this.#at);
      const to = end < 0 ? this.#text.length : end;
      const line = this.#text.slice(this.#at, to);
      this.#at = to + 1;
      if (!this.#takeLine(line)) this.#takeHeader(line);
    }
    return this.#at < this.#text.length;
  }

  /** Takes a line of a hunk. A hunk is as long as it says: its lines can look like headers. */
  #takeLine(line: string): boolean {
    const [file, hunk] = [this.#file, this.#hunk];
    if (!file || !hunk) return false;
    if (line.startsWith('\\')) {
      const last = hunk.lines.at(-1);
      if (last) last.bare = true;
      return true;
    }
    if (this.#oldLeft <= 0 && this.#nowLeft <= 0) return false;
    const sign = line === '' ? ' ' : line[0];
    if (sign !== ' ' && sign !== '+' && sign !== '-') {
      this.#hunk = null;
      return false;
    }
    const isOld = sign !== '+';
    const isNow = sign !== '-';
    const text = line.slice(1);
    hunk.lines.push({ sign, old: isOld ? this.#old : 0, now: isNow ? this.#now : 0, text, bare: false });
    if (isOld) {
      this.#old++;
      this.#oldLeft--;
    }
    if (isNow) {
      this.#now++;
      this.#nowLeft--;
    }
    if (sign === '+') file.additions++;
    if (sign === '-') file.deletions++;
    return true;
  }
  #takeHeader(line: string): void {
    if (line.startsWith('diff --git ')) return this.#start(pathOfBoth(line.slice(11)));
    const file = this.#file;
    // Binary content is not shown.
    if (!file || (file.binary && !file.hunks.length)) return;
    const hunk = HUNK.exec(line);
    if (hunk) {
      this.#hunk = { header: line, lines: [] };
      file.hunks.push(this.#hunk);
      this.#old = Number(hunk[1]);
      this.#oldLeft = Number(hunk[2] ?? 1);
      this.#now = Number(hunk[3]);
      this.#nowLeft = Number(hunk[4] ?? 1);
      return;
    }
    const [, word = '', value = ''] =
      /^(---|\+\+\+|(?:old|new|new file|deleted file) mode|(?:rename|copy) (?:from|to)|(?:dis)?similarity index|index) (.*)$/s.exec(
        line,
      ) ?? [];
    switch (word) {
      case '---':
        return;
      case '+++':
        file.path = pathOf(value) ?? file.path;
        return;
      case 'rename from':
      case 'copy from':
        file.old_path = unquoted(value);
        file.status = word === 'rename from' ? 'renamed' : 'copied';
        return;
      case 'rename to':
      case 'copy to':
        file.path = unquoted(value);
        return;
      case 'new file mode':
        file.status = 'added';
        return this.#note(MODES[value]);
      case 'deleted file mode':
        file.status = 'deleted';
        return;
      case 'old mode':
        this.#oldMode = value;
        return;
      case 'new mode':
        return this.#note(`Mode ${this.#oldMode} is now ${value}${MODES[value] ? ` (${MODES[value]})` : ''}`);
      case 'index': {
        file.index = value;
        const mode = MODES[value.split(' ')[1] ?? ''];
        return this.#note(mode === 'Executable' ? undefined : mode);
      }
      case 'similarity index':
      case 'dissimilarity index':
        return;
    }
    if (line === 'GIT binary patch' || /^Binary files .* differ$/.test(line)) {
      file.binary = true;
      return this.#note('Binary content');
    }
    if (line) this.#note(line);
  }
  #start(path: string): void {
    this.#hunk = null;
    this.#oldMode = '';
    this.#file = {
      path,
      old_path: null,
      status: 'modified',
      additions: 0,
      deletions: 0,
      binary: false,
      notes: [],
      hunks: [],
      index: '',
    };
    this.files.push(this.#file);
  }
  #note(text: string | undefined): void {
    const notes = this.#file!.notes;
    if (text && notes.length < NOTES_MAX) notes.push(text.slice(0, NOTE_CHARS_MAX));
  }
}

/** Lines that are read between two looks at the clock. */
const STEP_LINES = 500;
/** Maximum duration of work without a pause, well below what people notice. */
export const SLICE_MS = 12;
export const nextTask = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

/** Does work in slices: `step` returns false at the end, and `onslice` is called before each pause. */
export async function inSlices(step: () => boolean, onslice: () => void, pause = nextTask): Promise<void> {
  let start = performance.now();
  while (step()) {
    if (performance.now() - start < SLICE_MS) continue;
    onslice();
    await pause();
    start = performance.now();
  }
}

/** Parses a patch, with pauses. `onslice` gets the files so far; more can follow, and the last one can grow. */
export async function parsePatch(
  text: string,
  onslice: (files: PatchFile[]) => void = () => undefined,
  pause = nextTask,
): Promise<PatchFile[]> {
  const parser = new PatchParser(text);
  await inSlices(
    () => parser.step(STEP_LINES),
    () => onslice(parser.files),
    pause,
  );
  return parser.files;
}
