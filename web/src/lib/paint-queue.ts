/** A frame that takes longer is slow. */
const SLOW_MS = 32;
/** Number of frames from one paint to the next while frames are slow. */
const SPACING = 3;

export interface Painter {
  paint(): void;
  isVisible(): boolean;
}

/**
 * Paints streaming replies, each at most once per frame. While frames are slow, only one reply is painted in
 * every third frame: the visible ones first, and among them the one that has waited longest.
 */
export class PaintQueue {
  #waiting = new Set<Painter>();
  #request: (next: (now: number) => void) => number;
  #running = false;
  #last = Infinity;
  #sinceSlow = SPACING;
  #sincePaint = SPACING;

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
      painter.paint();
    }
    // The next frames show whether the paint was slow.
    this.#running = this.#waiting.size > 0 || this.#sincePaint < SPACING;
    if (this.#running) this.#request(this.#next);
  };
  #due(): Painter[] {
    const waiting = [...this.#waiting];
    if (this.#sinceSlow >= SPACING) return waiting;
    if (this.#sincePaint < SPACING) return [];
    const first = waiting.find((painter) => painter.isVisible()) ?? waiting[0];
    return first ? [first] : [];
  }
}
