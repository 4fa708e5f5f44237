import type { WindowLocks } from '../lib/window-locks';
import type { OutItem } from './outbox-item';

/** Time without a change after which a visible window takes over a message: browsers may suspend the window that holds the lock. */
const STEAL_AFTER_MS = 10_000;

interface Candidate {
  /** Messages that are ready to be sent. */
  waiting(): OutItem[];
  /** Checks whether this window is on screen: only then does it take over from another one. */
  visible(): boolean;
  /** Called when this window becomes the one that sends. */
  onElected(): void;
}

/** Election of the one window of a user that sends the messages of a workspace. */
export class SendingWindow {
  /** True if this window sends. */
  elected = false;
  #locks: WindowLocks;
  #lock: string;
  #candidate: Candidate;
  #release: () => void = () => undefined;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #disposed = false;

  constructor(locks: WindowLocks, lock: string, candidate: Candidate) {
    this.#locks = locks;
    this.#lock = lock;
    this.#candidate = candidate;
  }
  /** Waits until this window may send. */
  enter(): void {
    this.#compete(false);
  }
  /** Takes over later from a window that makes no progress. */
  takeOverLater(): void {
    const before = this.#candidate.waiting();
    if (!before.length) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      if (this.elected || !this.#candidate.visible()) return; // a window that becomes visible flushes
      if (this.#candidate.waiting().some((i) => before.includes(i))) this.#compete(true);
      else this.takeOverLater();
    }, STEAL_AFTER_MS);
  }
  dispose(): void {
    this.#disposed = true;
    this.#release();
    clearTimeout(this.#timer ?? undefined);
  }
  #compete(steal: boolean): void {
    this.#release();
    this.#release = this.#locks.hold(
      this.#lock,
      () => {
        this.elected = true;
        this.#candidate.onElected();
      },
      {
        steal,
        onlost: () => {
          this.elected = false;
          if (!this.#disposed) this.#compete(false);
        },
      },
    );
  }
}
