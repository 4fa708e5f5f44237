import { afterRows } from './lazy-module.svelte';
import type { roving as Roving } from './roving';

const load = afterRows(() => import('./roving'));

/** `roving`, from the time at which the first rows of the page are on screen. */
export function rovingLater(...args: Parameters<typeof Roving>) {
  let rows: ReturnType<typeof Roving> | undefined;
  void load().then(
    ({ roving }) => (rows = roving(...args)),
    () => undefined, // each control is a stop
  );
  return { destroy: () => rows?.destroy() };
}
