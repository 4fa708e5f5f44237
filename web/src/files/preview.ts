/** Maximum number of bytes of a text file that a preview reads. */
export const PREVIEW_BYTES_MAX = 64 * 1024;
const ROWS_MAX = 500;
const COLUMNS_MAX = 50;

export interface Preview {
  text: string;
  /** The cells, if it is a table of comma, semicolon, or tab-separated values. */
  rows: string[][] | null;
  /** True if only the beginning is shown. */
  cut: boolean;
}

/** The beginning of a text file, without half a character or half a line at the end. */
export function previewOf(name: string, bytes: Uint8Array, sizeBytes: number): Preview {
  const partial = bytes.length < sizeBytes;
  // `stream` holds back a character whose last bytes are missing.
  let text = new TextDecoder().decode(bytes, { stream: partial });
  if (partial) text = text.slice(0, text.lastIndexOf('\n') + 1 || text.length);
  const extension = /\.(csv|tsv)$/i.exec(name)?.[1]?.toLowerCase();
  const rows = extension ? table(text, extension === 'tsv' ? '\t' : separatorOf(text)) : null;
  const wide = rows?.some((r) => r.length > COLUMNS_MAX) ?? false;
  return {
    text,
    rows: rows && rows.slice(0, ROWS_MAX).map((r) => r.slice(0, COLUMNS_MAX)),
    cut: partial || wide || (rows?.length ?? 0) > ROWS_MAX,
  };
}

function separatorOf(text: string): string {
  const first = text.slice(0, text.indexOf('\n') >>> 0);
  const count = (separator: string) => first.split(separator).length;
  return [';', '\t'].reduce((best, s) => (count(s) > count(best) ? s : best), ',');
}

/**
 * Quoted values may contain separators, line breaks, and doubled quotes (RFC 4180). Null if there is only one
 * column.
 */
function table(text: string, separator: string): string[][] | null {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = '';
  let quoted = false;
  const endRow = () => {
    row.push(cell);
    if (row.length > 1 || cell) rows.push(row);
    row = [];
    cell = '';
  };
  for (let i = 0; i < text.length && rows.length <= ROWS_MAX; i++) {
    const c = text[i]!;
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[i + 1] === '"') cell += text[i++];
      else quoted = false;
    } else if (c === '"' && !cell) quoted = true;
    else if (c === separator) {
      row.push(cell);
      cell = '';
    } else if (c === '\n') endRow();
    else if (c !== '\r' || text[i + 1] !== '\n') cell += c;
  }
  if (row.length || cell) endRow();
  return rows.some((r) => r.length > 1) ? rows : null;
}
