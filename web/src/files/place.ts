import type { Spot } from '../state/standings';

/** The key of the composer's draft where a message would go: `d:` dive, `t:` thread, `c:` channel. */
export const placeKey = (channel: { id: string; kind: string }, spot: Spot | null): string =>
  spot?.fork ? `d:${spot.fork}` : spot && channel.kind !== 'direct' ? `t:${spot.thread}` : `c:${channel.id}`;
