/** Number of days until a guest loses access; blank for no end. */
export type GuestDays = '' | '7' | '30' | '90' | '365';
export const GUEST_DAYS: readonly (readonly [GuestDays, string])[] = [
  ['', 'Never'],
  ['7', 'In 7 days'],
  ['30', 'In 30 days'],
  ['90', 'In 90 days'],
  ['365', 'In a year'],
];
const DAY_MS = 86_400_000;
/** Time at which a guest loses access; null for no end. */
export const endOf = (days: GuestDays, now = Date.now()): string | null =>
  days ? new Date(now + Number(days) * DAY_MS).toISOString() : null;
