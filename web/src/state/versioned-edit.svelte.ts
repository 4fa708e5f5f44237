import { Conflict, errorMessage } from '../api/problem';
import { changes, same } from '../lib/merge';
import type { EditStorage } from './edit-storage';
import { SharedEdit, type KeptEdit } from './shared-edit.svelte';

/** Fields of an object on the server. */
export interface StoredFields<F> {
  /** 0 if the object does not exist yet. */
  version: number;
  fields: F;
  /** Author of the version, if the server reports it. */
  changedBy?: string | null;
}
export interface VersionedApi<F> {
  read(): Promise<StoredFields<F>>;
  /** Stores the changed fields. Fails with `Conflict` if the object no longer has `version`. */
  write(version: number, changed: Partial<F>, fields: F): Promise<StoredFields<F>>;
  /** The object after such a conflict. */
  newest(conflict: Conflict): Promise<StoredFields<F>>;
}

/**
 * Form for an object that others can change, too. Changes are saved only over the version that they started from. If someone
 * else changed the same fields, `theirs` is the newer version, and the person decides.
 */
export class VersionedEdit<F extends object> extends SharedEdit<F> {
  loaded = $state(false);
  theirs = $state.raw<StoredFields<F> | null>(null);
  /** True if the two versions are compared; until then `theirs` is only announced. */
  comparing = $state(false);
  busy = $state(false);
  problem = $state('');
  readonly dirty: boolean = $derived(this.isChanged);
  #api: VersionedApi<F>;
  #newest: StoredFields<F> | null = null;

  constructor(api: VersionedApi<F>, storage: EditStorage<KeptEdit<F>>) {
    super(storage);
    this.#api = api;
  }
  #changed(): Partial<F> {
    return changes(this.start, this.fields);
  }
  protected override received(): void {
    if (this.theirs?.version === this.version) this.#compared();
    if (this.#newest && this.#newest.version > this.version) this.newer(this.#newest);
  }
  #compared(): void {
    this.theirs = null;
    this.comparing = false;
  }
  #begin({ version, fields }: StoredFields<F>): void {
    this.version = version;
    this.start = this.fields = fields;
    this.#compared();
    this.restored = false;
    this.problem = '';
  }

  load = async (): Promise<void> => {
    this.problem = '';
    try {
      const stored = await this.#api.read();
      this.#begin(stored);
      this.restore();
      this.newer(stored);
      this.loaded = true;
    } catch (e) {
      this.problem = errorMessage(e);
    }
  };
  set(more: Partial<F>): void {
    this.fields = { ...this.fields, ...more };
    this.keepSoon();
  }
  /** Reverts to the start, or to the newer version. */
  discard(): void {
    this.#begin(this.theirs ?? { version: this.version, fields: this.start });
    this.keep();
  }
  /** Handles a version that someone else saved: adopts its changes to other fields. */
  newer(stored: StoredFields<F>): void {
    this.#newest = stored;
    if (stored.version === this.version) return;
    const mine = this.#changed();
    const missing = changes(stored.fields, this.fields);
    const elsewhere = changes(this.start, stored.fields);
    if (Object.keys(mine).some((field) => field in missing && field in elsewhere)) {
      this.theirs = stored;
      return;
    }
    this.#compared();
    this.version = stored.version;
    this.start = stored.fields;
    this.fields = { ...stored.fields, ...mine };
    this.keep();
  }
  /** Applies the merged fields on top of the newer version. */
  rebase(fields: F): void {
    if (!this.theirs) return;
    this.#begin(this.theirs);
    this.fields = fields;
    this.keep();
  }

  /** Returns false if it was not saved: `problem` or `theirs` then contains the reason. */
  async save(): Promise<boolean> {
    const sent = this.fields;
    const saved = await this.#run(async (version) =>
      this.isChanged || !this.#newest ? this.#api.write(version, this.#changed(), this.fields) : this.#newest,
    );
    if (!saved) return false;
    const typed = changes(sent, this.fields);
    this.#newest = saved;
    this.#begin(saved);
    this.fields = { ...this.fields, ...typed };
    this.keep();
    return true;
  }
  /**
   * Deletes the object. Returns false if it was not deleted: `problem` or `theirs` then contains the reason.
   */
  async remove(send: (version: number) => Promise<void>): Promise<boolean> {
    const isRemoved = await this.#run((version) => send(version).then(() => true));
    if (isRemoved) this.discard();
    return isRemoved ?? false;
  }
  async #run<T>(send: (version: number) => Promise<T>): Promise<T | null> {
    if (this.busy) return null;
    if (this.theirs) {
      this.comparing = true;
      return null;
    }
    this.busy = true;
    this.problem = '';
    try {
      return await send(this.version).catch((e: unknown) => this.#again(e, send));
    } catch (e) {
      this.problem = errorMessage(e);
      return null;
    } finally {
      this.busy = false;
    }
  }
  /** After a conflict: sends the change again, unless the person has to see what someone else changed. */
  async #again<T>(e: unknown, send: (version: number) => Promise<T>): Promise<T | null> {
    if (!(e instanceof Conflict)) throw e;
    const [before, isDirty] = [this.start, this.isChanged];
    this.newer(await this.#api.newest(e));
    if (this.theirs) this.comparing = true;
    else if (isDirty || same(before, this.start)) return send(this.version);
    else this.problem = 'Someone else changed this in the meantime. Check the new version first.';
    return null;
  }
}
