const NEAR_PX = 60;
const HAND_MS = 700;

interface ScrollBox {
  scrollHeight: number;
  scrollTop: number;
  clientHeight: number;
}

/**
 * Follows the end of a growing list. Only user input (wheel, touch, key, scrollbar) can stop this, because
 * measuring rows also changes the offset and must not count.
 */
export class StickToEnd {
  stuck = $state(true);
  #hand = -Infinity;
  /** True during a programmatic scroll: passing the end does not attach the list to it. */
  #leaving = false;
  #now: () => number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }
  /** True until the user scrolls or another destination is set. */
  get leaving(): boolean {
    return this.#leaving;
  }
  /** Records user input on the list. */
  touch = (): void => {
    this.#hand = this.#now();
    this.#leaving = false;
  };
  follow(): void {
    this.stuck = true;
    this.#leaving = false;
  }
  /** Starts a programmatic scroll to a message. */
  leave(): void {
    this.stuck = false;
    this.#leaving = true;
  }
  arrived(box: ScrollBox, more: boolean): void {
    this.#leaving = false;
    this.scrolled(box, more);
  }
  /**
   * If there are `more` messages below that are not loaded, the end of the box is not the end of the list.
   */
  scrolled(box: ScrollBox, more: boolean): void {
    const near = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX;
    if (near && !more) this.stuck ||= !this.#leaving;
    else if (this.#now() - this.#hand < HAND_MS) this.stuck = false;
  }
}
