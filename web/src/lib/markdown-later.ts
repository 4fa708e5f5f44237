import { lazyModule } from './lazy-module.svelte';
import { hasVisible } from './visible';

/** Parser and sanitizer, which composers need only for a text: the lists above them show none. */
export const markdown = lazyModule(() => import('./markdown'));

/** Checks for a message that shows nothing. Until the parser is loaded, only white space counts as blank. */
export const isBlank = (text: string): boolean => !hasVisible(text) || (markdown()?.isBlank(text) ?? false);

/** Handles that a text mentions; none until the parser is loaded. */
export const handlesIn = (text: string, isHandle: (handle: string) => boolean): Set<string> =>
  (/[@＠]/.test(text) && markdown()?.handlesIn(text, isHandle)) || new Set();
