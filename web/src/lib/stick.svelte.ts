const NEAR_PX = 60;
const HAND_MS = 700;

/**
 * Follows the end of a growing list. Only a person lets go of the bottom (wheel, touch, key, scrollbar):
 * rows being measured also move the offset, and must not count.
 */
export class StickToEnd {
  stuck = $state(true);
  #hand = -Infinity;
  #now: () => number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }
  /** A person touched the list. */
  touch = (): void => {
    this.#hand = this.#now();
  };
  scrolled(box: { scrollHeight: number; scrollTop: number; clientHeight: number }): void {
    if (box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX) this.stuck = true;
    else if (this.#now() - this.#hand < HAND_MS) this.stuck = false;
  }
}
