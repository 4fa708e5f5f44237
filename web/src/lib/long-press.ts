const HOLD_MS = 450;

/** Long press on touch screens; replaces hovering with a mouse. */
export class LongPress {
  #timer: ReturnType<typeof setTimeout> | null = null;
  #fire: () => void;
  #ignored: string;
  /** `ignored`: elements that handle touches themselves. */
  constructor(fire: () => void, ignored = 'a, button, textarea, pre, .tablewrap') {
    this.#fire = fire;
    this.#ignored = ignored;
  }
  start = (e: TouchEvent): void => {
    this.cancel();
    if (e.touches.length !== 1 || (e.target as Element).closest(this.#ignored)) return;
    this.#timer = setTimeout(() => {
      // The end of this touch must not press what has opened under the finger.
      e.target?.addEventListener('touchend', (end) => end.preventDefault(), { once: true, passive: false });
      this.#fire();
    }, HOLD_MS);
  };
  cancel = (): void => {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  };
}
