const HOLD_MS = 450;

/** Long press on touch screens; replaces hovering with a mouse. */
export class LongPress {
  #timer: ReturnType<typeof setTimeout> | null = null;
  #fire: () => void;
  constructor(fire: () => void) {
    this.#fire = fire;
  }
  start = (e: TouchEvent): void => {
    this.cancel();
    if (e.touches.length !== 1 || (e.target as Element).closest('a, button, textarea, pre, .tablewrap'))
      return;
    this.#timer = setTimeout(this.#fire, HOLD_MS);
  };
  cancel = (): void => {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  };
}
