/**
 * Creates state that outlives the component that needs it first: a `$derived` never changes again once the component in which it was
 * created is gone.
 */
export function outsideComponents<T extends object>(make: () => T): T {
  let made: T | undefined;
  $effect.root(() => {
    made = make();
  });
  return made!;
}
