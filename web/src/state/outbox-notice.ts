import type { Net } from './connection.svelte';
import type { OutItem } from './outbox-item';

/**
 * Notice that the outbox is full. Messages that wait while offline leave it automatically later; failed ones
 * never do.
 */
export const fullNotice = (items: readonly OutItem[], net: Net): string =>
  net === 'offline' && items.some((i) => i.status !== 'failed')
    ? `${items.length} messages are waiting. You can send more when you’re back online.`
    : `${items.length} messages are not sent. Try again or delete some.`;
