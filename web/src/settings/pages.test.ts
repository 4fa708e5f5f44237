import { expect, test } from 'vitest';
import { GROUPS, movedTo, pageOf } from './pages';

const PAGES = GROUPS.flatMap((group) => group.pages);

/** Pages of other specifications, which have rows of their own. */
const OTHERS = ['security', 'integrations', 'import', 'export', 'providers'];

test('there are five groups with at most 16 pages beside those of other specifications', () => {
  expect(GROUPS).toHaveLength(5);
  const others = PAGES.filter(({ key }) => !OTHERS.includes(key));
  expect(others.length).toBeLessThanOrEqual(16);
  expect(new Set(PAGES.map((page) => page.key)).size).toBe(PAGES.length);
});
test.each([
  ['appearance', 'profile'],
  ['password', 'sign-in'],
  ['data', 'profile'],
  ['devices', 'sign-in'],
  ['sessions', 'sign-in'],
  ['keys', 'sign-in'],
  ['bots', 'integrations'],
  ['webhooks', 'integrations'],
  ['commands', 'integrations'],
  ['invites', 'members'],
  ['channels', 'workspace'],
  ['context', 'told'],
  ['about-us', 'told'],
  ['personas', 'styles'],
  ['repositories', 'tools'],
  ['runners', 'tools'],
  ['usage', 'costs'],
  ['budgets', 'costs'],
])('the former page %s is part of %s', (former, page) => {
  expect(movedTo(former)).toBe(page);
  expect(pageOf(former)).toBeUndefined();
  expect(pageOf(page)?.key).toBe(page);
});
