import { untrack } from 'svelte';

/** A message is read after a second on screen; the rest is for the request. */
const RISE_AFTER_MS = 1500;

/**
 * A count that falls at once. While `delayed`, it rises only once the source has kept its value for 1.5 s:
 * messages that are read as they arrive do not flash as unread. Call it while a component starts.
 */
export function delayedRise(source: () => number, delayed: () => boolean): { readonly value: number } {
  let max = $state(untrack(source));
  $effect(() => {
    const now = source();
    if (now <= untrack(() => max) || !delayed()) {
      max = now;
      return;
    }
    const timer = setTimeout(() => (max = now), RISE_AFTER_MS);
    return () => clearTimeout(timer);
  });
  return {
    get value() {
      return delayed() ? Math.min(source(), max) : source();
    },
  };
}
