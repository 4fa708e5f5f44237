/** Text that another app shared (`share_target` of the manifest): title, text, and link, each once. */
export function sharedText(query: URLSearchParams): string {
  const parts = ['title', 'text', 'url'].map((name) => (query.get(name) ?? '').trim()).filter(Boolean);
  return parts.filter((part, i) => !parts.some((other, j) => contains(other, part, j < i))).join('\n');
}
/** True if `part` need not be repeated beside `other`. Of two equal ones, the first is kept. */
const contains = (other: string, part: string, isBefore: boolean): boolean =>
  other === part ? isBefore : other.includes(part);

/** The shared text below what is already in the composer. */
export const withShared = (draft: string, shared: string): string =>
  draft.trim() ? `${draft.trimEnd()}\n${shared}` : shared;
