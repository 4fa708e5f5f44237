import { device, type KeyValueStore } from '../lib/storage';
import { createdAt } from './ids';

const DECLINED = 'openvibe.push.declined';
const HOUR_MS = 3_600_000;
const DECLINED_FOR_MS = 14 * 24 * HOUR_MS;

/** What decides whether notifications are offered. */
export interface OfferSituation {
  support: 'yes' | 'home' | 'no';
  permission: NotificationPermission;
  /** True if this browser already gets them. */
  isOn: boolean;
  user: string;
  /** Time of the newest open item that notifies, and of the last moment before it in which no window was visible. */
  newest: number | null;
  visibleSince: number;
}

/** Notifications are offered once an item came while no window of the user was visible, but not in the account's first hour. */
export function offersPush(s: OfferSituation, now = Date.now(), store: KeyValueStore = device): boolean {
  if (s.support === 'no' || s.isOn || (s.support === 'yes' && s.permission === 'denied')) return false;
  const declined = Number(store.get(DECLINED) ?? 0);
  if (now - declined < DECLINED_FOR_MS || now - createdAt(s.user) < HOUR_MS) return false;
  return s.newest !== null && s.newest < s.visibleSince;
}
export function declinePush(now = Date.now(), store: KeyValueStore = device): void {
  store.set(DECLINED, `${now}`);
}
