import { expect, test } from 'vitest';
import type { KeyValueStore } from '../lib/storage';
import { createdAt } from './ids';
import { declinePush, offersPush, type OfferSituation } from './offer';

const values = new Map<string, string>();
const store: KeyValueStore = {
  get: (key) => values.get(key) ?? null,
  set: (key, value) => (values.set(key, value), true),
  remove: (key) => void values.delete(key),
  keys: () => [...values.keys()],
  watch: () => () => undefined,
};
const user = 'user_01h455vb4pex5vsknk084sn02q';
const born = createdAt(user);
const HOUR = 3_600_000;
const now = born + 48 * HOUR;
const missed: OfferSituation = {
  support: 'yes',
  permission: 'default',
  isOn: false,
  user,
  newest: now - 2 * HOUR,
  visibleSince: now - HOUR,
};

test.each<[string, Partial<OfferSituation>, boolean, number?]>([
  ['an item came while no window was visible', {}, true],
  ['on iOS in a tab', { support: 'home', permission: 'denied' }, true],
  ['the permission was given, but the browser is not subscribed', { permission: 'granted' }, true],
  ['the item came into a visible window', { newest: now - 1000 }, false],
  ['there is no item', { newest: null }, false],
  ['they are on', { isOn: true }, false],
  ['the browser blocks them', { permission: 'denied' }, false],
  ['the browser has none', { support: 'no' }, false],
  ['in the first hour', { newest: born, visibleSince: born + 1 }, false, born + HOUR - 1],
  ['after the first hour', { newest: born, visibleSince: born + 1 }, true, born + HOUR],
])('notifications if %s', (_, of, expected, at = now) => {
  values.clear();
  expect(offersPush({ ...missed, ...of }, at, store)).toBe(expected);
});
test('"Not now" lasts for 14 days', () => {
  values.clear();
  declinePush(now, store);
  expect(offersPush(missed, now + 14 * 24 * HOUR - 1, store)).toBe(false);
  expect(offersPush(missed, now + 14 * 24 * HOUR, store)).toBe(true);
});
