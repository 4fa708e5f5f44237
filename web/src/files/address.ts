import type { Place } from '../lib/router.svelte';

/** A passage in the text of a part, in UTF-16 code units. */
export interface Quote {
  from: number;
  to: number;
}

/** The passage of an address; null if it names none. */
export function parseQuote(range: string): Quote | null {
  const [, from, to] = /^(\d+)-(\d+)$/.exec(range) ?? [];
  return from && to ? { from: Number(from), to: Number(to) } : null;
}

/** A file in the panel, as in the address. */
export const filePanel = (id: string, part: number, quote: Quote | null = null): string =>
  `file:${id}:${part}${quote ? `:${quote.from}-${quote.to}` : ''}`;

/** Address of a page with a file in its panel. */
export function panelHref({ path, query }: Place, panel: string): string {
  const all = new URLSearchParams(query);
  all.set('panel', panel);
  all.delete('focus');
  return `${path}?${all.toString().replaceAll('%3A', ':')}`;
}
