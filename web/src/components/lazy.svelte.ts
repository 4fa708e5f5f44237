import type { Component } from 'svelte';

/** A row component, loaded when the first row that needs it is on screen; null until then. */
export function lazyComponent<P extends Record<string, unknown>>(
  load: () => Promise<{ default: Component<P> }>,
): () => Component<P> | null {
  let component = $state.raw<Component<P> | null>(null);
  let asked = false;
  return () => {
    if (!asked) {
      asked = true;
      load().then(
        (module) => (component = module.default),
        () => (asked = false), // the next row tries again; until then, its text is shown
      );
    }
    return component;
  };
}

/** Card of a result. */
export const resultCard = lazyComponent(() => import('./ResultCard.svelte'));
/** Attachments of a message. */
export const messageFiles = lazyComponent(() => import('../files/MessageFiles.svelte'));
