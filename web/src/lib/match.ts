/**
 * Rank in the quick switcher: 0 for a title prefix, then word prefix, anywhere, letters in order; 9 for no
 * match.
 */
export function matchRank(title: string, query: string): number {
  const t = title.toLowerCase();
  const q = query.trim().toLowerCase();
  if (t.startsWith(q)) return 0;
  if (t.includes(' ' + q) || t.includes('-' + q)) return 1;
  if (t.includes(q)) return 2;
  let at = 0;
  for (const c of q) {
    at = t.indexOf(c, at) + 1;
    if (!at) return 9;
  }
  return 3;
}

export function bestMatches<T extends { title: string }>(all: readonly T[], query: string, max: number): T[] {
  return all
    .map((x, i) => ({ x, i, r: matchRank(x.title, query) }))
    .filter((h) => h.r < 9)
    .sort((a, b) => a.r - b.r || a.i - b.i)
    .slice(0, max)
    .map((h) => h.x);
}
