import { lazyModule } from './lazy-module.svelte';
import { full } from './time';

const imported = lazyModule(() => import('./imported'));

/** When a message was sent; for one of an archive, the source, too. */
export const sentText = (iso: string, format?: string): string =>
  (format && imported()?.importedText(iso, format)) || full(iso);
