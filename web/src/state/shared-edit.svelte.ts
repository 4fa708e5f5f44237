import { changes, same } from '../lib/merge';
import type { EditStorage } from './edit-storage';

/** Edited fields of an object, and the version that the changes started from. */
export interface KeptEdit<F> {
  version: number;
  start: F;
  fields: F;
}
export const isKeptEdit = <F>(x: unknown): x is KeptEdit<F> =>
  typeof x === 'object' && x !== null && 'fields' in x && 'start' in x && 'version' in x;

const KEEP_AFTER_MS = 400;

/**
 * Unsaved changes of an object, stored on the device until they are saved. All windows of a browser share them: each shows what
 * was typed in the others, and nothing that was typed in one is overwritten by another.
 */
export abstract class SharedEdit<F extends object> {
  fields = $state.raw<F>({} as F);
  /** Fields at the start of editing. */
  start = $state.raw<F>({} as F);
  /** Version of `start`; 0 for a new object. */
  version = $state(0);
  /** True if unsaved changes were restored after a reload. */
  restored = $state(false);
  #storage: EditStorage<KeptEdit<F>>;
  /** The edit as this window last stored or read it; null before it is restored. */
  #shared: KeptEdit<F> | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #unwatch: () => void;

  constructor(storage: EditStorage<KeptEdit<F>>) {
    this.#storage = storage;
    this.#unwatch = storage.watch(() => this.#receive(storage.get()));
  }
  /**
   * True if some fields differ from their start. Unlike a `$derived`, this stays correct after the component
   * of the edit is gone.
   */
  protected get isChanged(): boolean {
    return Object.keys(changes(this.start, this.fields)).length > 0;
  }
  /** True if some of the changes are missing in these fields of a newer version. */
  protected isMissingIn(newer: F): boolean {
    const missing = changes(newer, this.fields);
    return Object.keys(changes(this.start, this.fields)).some((field) => field in missing);
  }
  /** Called when the fields, and possibly their version, were changed in another window. */
  protected abstract received(): void;

  /** Continues with the changes on the device, if there are any. */
  protected restore(): void {
    this.#shared = this.#now();
    this.#receive(this.#storage.get());
    this.restored = this.isChanged;
  }
  #now(): KeptEdit<F> {
    return { version: this.version, start: this.start, fields: this.fields };
  }
  /** Combines what another window stored with what was typed here since the last exchange. */
  #receive(stored: KeptEdit<F> | null): void {
    const shared = this.#shared;
    if (!shared || !stored || same(stored, shared)) return;
    const typed = changes(shared.fields, this.fields);
    // Text over an older version stays over it, so that a conflict with the newer one is found.
    const base = Object.keys(typed).length && this.version < stored.version ? this.#now() : stored;
    this.fields = { ...base.start, ...changes(stored.start, stored.fields), ...typed };
    this.start = base.start;
    this.version = base.version;
    this.#shared = stored;
    this.received();
  }

  protected keepSoon(): void {
    this.#timer ??= setTimeout(() => this.keep(), KEEP_AFTER_MS);
  }
  /** Writes the changes to the device immediately. */
  keep(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    if (!this.#shared) return;
    this.#receive(this.#storage.get());
    const now = this.#now();
    if (same(now, this.#shared)) return; // else edits that another window discarded would come back
    if (!this.isChanged) this.#storage.clear();
    else if (!this.#storage.set(now)) return;
    this.#shared = now;
  }
  /** Writes what was typed since the last write, and stops following other windows. */
  dispose(): void {
    // Nothing else: while Svelte removes a component, fields that were just discarded still have their old values.
    if (this.#timer) this.keep();
    this.#unwatch();
  }
}

/**
 * Stores the changes when the page is reloaded, and when the component that calls this in `onMount` is
 * removed.
 */
export function keepOnLeave(edit: () => { keep(): void; dispose(): void } | null): () => void {
  const keep = () => edit()?.keep();
  addEventListener('pagehide', keep);
  return () => {
    removeEventListener('pagehide', keep);
    edit()?.dispose();
  };
}
