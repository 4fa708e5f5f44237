import type { Component } from 'svelte';

/** A row component, loaded when the first row that needs it is on screen; null until then. */
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
        () => (asked = false), // the next row tries again; until then, its text is shown
      );
    }
    return part;
  };
}

/** Card of a result. */
export const resultCard = partOf(() => import('./ResultCard.svelte'));
/** Attachments of a message. */
export const messageFiles = partOf(() => import('../files/MessageFiles.svelte'));
