const whole = new Intl.NumberFormat('en-GB');
/** "12,345". */
export const count = (n: number): string => whole.format(n);

/** "$1,234.50"; a dash if unknown. Amounts below one cent are not shown as zero. */
export function money(usd: number | null): string {
  if (usd === null) return '—';
  if (usd > 0 && usd < 0.01) return '< $0.01';
  return `$${usd.toFixed(2).replace(/\B(?=(\d{3})+\.)/g, ',')}`;
}

/** Limit at which the server stops counting unread messages. */
export const UNREAD_MAX = 1000;
/** "12", "999+". */
export const unreadCount = (n: number): string => (n < UNREAD_MAX ? `${n}` : `${UNREAD_MAX - 1}+`);
/** "1 mention", "999+ mentions". */
export const unread = (n: number, one: string): string => `${unreadCount(n)} ${one}${n === 1 ? '' : 's'}`;
