import type { WindowLocks } from '../lib/window-locks';
import type { OutItem } from './outbox-item';
import { cutOff } from './outbox-rules';

/** Without Web Locks: interval at which an uploading window updates its message, and time after which it counts as closed. Hidden windows run timers once a minute. */
const ALIVE_EVERY_MS = 5000;
const CLOSED_AFTER_MS = 70_000;

interface Items {
  find(client_id: string): OutItem | undefined;
  patch(client_id: string, change: Partial<OutItem>): void;
}

/**
 * Tracks uploads of messages' files: those of this window, and those of other windows, which fail when their
 * window closes.
 */
export class UploadWatch {
  #locks: WindowLocks;
  #items: Items;
  #release = new Map<string, () => void>();

  constructor(locks: WindowLocks, items: Items) {
    this.#locks = locks;
    this.#items = items;
  }
  has(client_id: string): boolean {
    return this.#release.has(client_id);
  }
  /** Announces to other windows that this one uploads the files. */
  hold(client_id: string): void {
    if (this.#locks.shared) {
      const release = this.#locks.hold(`openvibe.upload.${client_id}`, () => undefined);
      this.#release.set(client_id, release);
      return;
    }
    const alive = () => {
      if (this.#items.find(client_id)?.status === 'uploading')
        this.#items.patch(client_id, { alive_at: Date.now() });
    };
    const timer = setInterval(alive, ALIVE_EVERY_MS);
    this.#release.set(client_id, () => clearInterval(timer));
    alive();
  }
  /**
   * Waits until the uploading window is closed. The message then fails, and loses the files that were not
   * uploaded.
   */
  follow(client_id: string): void {
    if (!this.#locks.shared) return this.#followAlive(client_id);
    const release = this.#locks.hold(`openvibe.upload.${client_id}`, () => {
      this.#cutOff(client_id);
      this.#release.get(client_id)?.();
    });
    this.#release.set(client_id, release);
  }
  end(client_id: string): void {
    this.#release.get(client_id)?.();
    this.#release.delete(client_id);
  }
  dispose(): void {
    for (const release of this.#release.values()) release();
  }

  #followAlive(client_id: string): void {
    const item = this.#items.find(client_id);
    if (item?.status !== 'uploading') return void this.#release.delete(client_id);
    const left = (item.alive_at ?? 0) + CLOSED_AFTER_MS - Date.now();
    if (left <= 0) return this.#cutOff(client_id);
    const timer = setTimeout(() => this.#followAlive(client_id), left);
    this.#release.set(client_id, () => clearTimeout(timer));
  }
  #cutOff(client_id: string): void {
    const item = this.#items.find(client_id);
    if (item?.status === 'uploading') this.#items.patch(client_id, cutOff(item));
  }
}
