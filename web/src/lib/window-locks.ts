/** Locks that the windows of one browser share. */
export interface WindowLocks {
  /** False on plain http, where browsers have no Web Locks; then every lock is granted immediately. */
  readonly shared: boolean;
  /**
   * Waits for the lock and holds it until release. Calls `onheld` when it is granted and `onlost` when
   * another window steals it; `steal` takes it from the window that holds it. Returns the release function.
   */
  hold(name: string, onheld: () => void, options?: { onlost?: () => void; steal?: boolean }): () => void;
}

export const windowLocks: WindowLocks = {
  get shared() {
    return (globalThis.navigator as Partial<Navigator> | undefined)?.locks !== undefined;
  },
  hold(name, onheld, { onlost, steal = false } = {}) {
    if (!this.shared) {
      onheld();
      return () => undefined;
    }
    const waiting = new AbortController();
    let release = () => waiting.abort();
    let released = false;
    const held = () =>
      new Promise<void>((done) => {
        release = done;
        if (released) return done();
        onheld();
      });
    navigator.locks
      .request(name, steal ? { steal } : { signal: waiting.signal }, held)
      .catch(() => released || onlost?.());
    return () => {
      released = true;
      release();
    };
  },
};
