/**
 * Creates state that outlives the component that needs it first: a `$derived` never changes again once the component in which it was
 * created is gone.
 */
export function outsideComponents<T extends object>(make: () => T): T {
  const made: T[] = [];
  $effect.root(() => {
    made.push(make());
  });
  // Without a browser, effects do not run.
  return made[0] ?? make();
}
