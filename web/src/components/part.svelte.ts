import type { Component } from 'svelte';

/** A component of rows, fetched when the first one is on screen; null until then. */
export function partOf<P extends Record<string, unknown>>(
  load: () => Promise<{ default: Component<P> }>,
): () => Component<P> | null {
  let part = $state.raw<Component<P> | null>(null);
  let asked = false;
  return () => {
    if (!asked) {
      asked = true;
      load().then(
        (module) => (part = module.default),
        () => (asked = false), // the next row asks again; until then its text is shown
      );
    }
    return part;
  };
}

/** The card of a result. */
export const resultCard = partOf(() => import('./ResultCard.svelte'));
/** What is attached to a message. */
export const messageFiles = partOf(() => import('../files/MessageFiles.svelte'));
