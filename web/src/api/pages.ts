import type { List } from './types';

const PAGE = 100;

/** All objects of a paged list, in order. */
export async function allPages<T extends { id: string }>(
  load: (page: { limit: number; after?: string }) => Promise<List<T>>,
): Promise<T[]> {
  const all: T[] = [];
  for (let after: string | undefined, more = true; more;) {
    const page = await load({ limit: PAGE, after });
    all.push(...page.data);
    after = page.data.at(-1)?.id;
    more = page.has_more && after !== undefined;
  }
  return all;
}
