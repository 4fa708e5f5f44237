import type { Spot } from '../state/composer-context';

/** Key of the draft of the composer that would post the message: `d:` dive, `t:` thread, `c:` channel. */
export const placeKey = (channel: { id: string; kind: string }, spot: Spot | null): string =>
  spot?.fork ? `d:${spot.fork}` : spot && channel.kind !== 'direct' ? `t:${spot.thread}` : `c:${channel.id}`;
