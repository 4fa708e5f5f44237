import { untrack } from 'svelte';

/** A message is read after one second on screen; the rest is time for the request. */
const RISE_AFTER_MS = 1500;

/**
 * A count that falls immediately. While `delayed`, it rises only after the source has kept its
 * value for 1.5 s, so that messages that are read on arrival do not appear as unread for a moment.
 * Call it during component initialization.
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
