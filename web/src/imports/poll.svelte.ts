import type { ArchiveImports } from './archive-imports.svelte';

const POLL_MS = 1000;

/** Loads an import again while the server works on it. Called when a component is created. */
export function pollWhileBusy(imports: ArchiveImports): void {
  $effect(() => {
    if (!imports.isBusy || imports.upload) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const next = () =>
      (timer = setTimeout(() => {
        // The error may be temporary; the next poll tries again.
        void imports
          .refresh()
          .catch(() => undefined)
          .finally(() => timer && next());
      }, POLL_MS));
    next();
    return () => {
      clearTimeout(timer);
      timer = undefined;
    };
  });
}
