const SEEN_AFTER_MS = 1000;

/** Read = window visible and row on screen for a second (UI.md §4). Reports the highest `seq` that was. */
export class ReadMark {
  #report: (seq: number) => void;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #pending = 0;
  #done = 0;

  constructor(report: (seq: number) => void) {
    this.#report = report;
  }

  /** Call when rows or the offset changed. */
  look(box: HTMLElement): void {
    const seq = document.visibilityState === 'visible' ? lastVisible(box) : 0;
    if (seq <= this.#done || seq === this.#pending) return;
    if (this.#timer) clearTimeout(this.#timer);
    this.#pending = seq;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      const still = Math.min(seq, document.visibilityState === 'visible' ? lastVisible(box) : 0);
      this.#pending = 0;
      if (still > this.#done) {
        this.#done = still;
        this.#report(still);
      }
    }, SEEN_AFTER_MS);
  }
  stop(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    // What appeared at the end of a list that one was looking at was seen, also when one leaves within the second.
    if (this.#pending > this.#done) this.#report(this.#pending);
  }
}

function lastVisible(box: HTMLElement): number {
  const { top, bottom } = box.getBoundingClientRect();
  let seq = 0;
  for (const row of box.querySelectorAll<HTMLElement>('article[data-seq]')) {
    const r = row.getBoundingClientRect();
    // A row taller than the window counts once its end, or a screenful of it, was shown.
    if (r.top < bottom && r.bottom > top && (r.bottom <= bottom + 24 || r.height > bottom - top)) {
      seq = Math.max(seq, Number(row.dataset.seq));
    }
  }
  return seq;
}
