const SEEN_AFTER_MS = 1000;

/**
 * Tracks which messages are on screen in a visible tab, and which of them have been there for one second
 * without interruption.
 */
export class ScreenTime {
  #since = new Map<number, number>();
  #timer: ReturnType<typeof setTimeout> | null = null;
  #onvisible: (seqs: ReadonlySet<number>) => void;
  #onseen: (seqs: readonly number[]) => void;

  constructor(onvisible: (seqs: ReadonlySet<number>) => void, onseen: (seqs: readonly number[]) => void) {
    this.#onvisible = onvisible;
    this.#onseen = onseen;
  }

  /** Call this when the rows, the offset, or the visibility of the tab has changed. */
  update(box: HTMLElement): void {
    const visible = document.visibilityState === 'visible' ? visibleSeqs(box) : new Set<number>();
    const now = performance.now();
    for (const seq of this.#since.keys()) if (!visible.has(seq)) this.#since.delete(seq);
    for (const seq of visible) if (!this.#since.has(seq)) this.#since.set(seq, now);
    this.#onvisible(visible);
    this.#timer ??= setTimeout(() => this.#due(), SEEN_AFTER_MS);
  }
  stop(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#since.clear();
  }
  /**
   * Reports all messages that have been on screen for one second; repeats those whose marker did
   * not reach the server.
   */
  report(now = performance.now()): void {
    const seen = [...this.#since].filter(([, since]) => since + SEEN_AFTER_MS <= now).map(([seq]) => seq);
    if (seen.length) this.#onseen(seen);
  }
  #due(): void {
    this.#timer = null;
    const now = performance.now();
    this.report(now);
    const left = [...this.#since.values()].map((since) => since + SEEN_AFTER_MS - now).filter((ms) => ms > 0);
    if (left.length) this.#timer = setTimeout(() => this.#due(), Math.ceil(Math.min(...left)));
  }
}

function visibleSeqs(box: HTMLElement): Set<number> {
  const { top, bottom } = box.getBoundingClientRect();
  const seqs = new Set<number>();
  for (const row of box.querySelectorAll<HTMLElement>('article[data-seq]')) {
    const r = row.getBoundingClientRect();
    // A row taller than the window counts once its end or a screenful of it is shown.
    if (r.top < bottom && r.bottom > top && (r.bottom <= bottom + 24 || r.height > bottom - top))
      seqs.add(Number(row.dataset.seq));
  }
  return seqs;
}
