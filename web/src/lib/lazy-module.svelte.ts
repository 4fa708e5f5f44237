let show: () => void;
const rowsAreShown = new Promise<void>((resolve) => (show = resolve));
/** Called by a view when its first rows are on screen: parts that nobody needs before are loaded then. */
export const rowsShown = (): void => show();

/** A module that is loaded when it is first needed; null until then. */
export function lazyModule<T>(load: () => Promise<T>): () => T | null {
  let module = $state.raw<T | null>(null);
  let asked = false;
  return () => {
    if (!asked) {
      asked = true;
      load().then(
        (loaded) => (module = loaded),
        () => (asked = false), // the next call tries again
      );
    }
    return module;
  };
}
/** Delays a load until the first rows are on screen. */
export const afterRows =
  <T>(load: () => Promise<T>) =>
  (): Promise<T> =>
    rowsAreShown.then(load);
