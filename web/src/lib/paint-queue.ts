/** A frame that takes longer is slow. Above the 33.3 ms of a display, or a browser, that shows 30 frames per second. */
const SLOW_MS = 40;
/** Number of frames from one paint to the next while frames are slow. */
const SPACING_FRAMES = 3;

/** A reply that is painted. */
export interface Painter {
  paint(): void;
  isVisible(): boolean;
  /** True if nothing is painted yet, or if the text is final: such replies do not wait. */
  isUrgent(): boolean;
}

/**
 * Paints streaming replies, each at most once per frame. While frames are slow, only one reply is painted in
 * every third frame: the visible ones first, and among them the one that has waited longest. Nothing is missed: an
 * invisible reply is painted when it is shown, or ends.
 */
export class PaintQueue {
  #waiting = new Set<Painter>();
  #request: (next: (now: number) => void) => number;
  #running = false;
  #last = Infinity;
  /** Number of frames since the last slow one, and since the last paint. */
  #sinceSlow = SPACING_FRAMES;
  #sincePaint = SPACING_FRAMES;

  constructor(request: (next: (now: number) => void) => number = (next) => requestAnimationFrame(next)) {
    this.#request = request;
  }

  add(painter: Painter): void {
    this.#waiting.add(painter);
    if (this.#running) return;
    this.#running = true;
    this.#last = Infinity;
    this.#request(this.#next);
  }
  remove(painter: Painter): void {
    this.#waiting.delete(painter);
  }

  #next = (now: number): void => {
    this.#sinceSlow = now - this.#last > SLOW_MS ? 0 : this.#sinceSlow + 1;
    this.#sincePaint++;
    this.#last = now;
    const due = this.#due();
    if (due.length > 0) this.#sincePaint = 0;
    for (const painter of due) {
      this.#waiting.delete(painter);
      try {
        painter.paint();
      } catch (e) {
        reportError(e); // the other replies go on
      }
    }
    // The next frames show whether the paint was slow.
    this.#running = this.#waiting.size > 0 || this.#sincePaint < SPACING_FRAMES;
    if (this.#running) this.#request(this.#next);
  };
  #due(): Painter[] {
    const waiting = [...this.#waiting];
    if (this.#sinceSlow >= SPACING_FRAMES) return waiting;
    const urgent = waiting.filter((painter) => painter.isUrgent());
    if (urgent.length > 0 || this.#sincePaint < SPACING_FRAMES) return urgent;
    const first = waiting.find((painter) => painter.isVisible()) ?? waiting[0];
    return first ? [first] : [];
  }
}
