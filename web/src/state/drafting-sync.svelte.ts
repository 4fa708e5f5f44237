import type { OutcomeEvent } from '../api/events';
import { ApiError, Conflict, errorMessage, Unreachable } from '../api/problem';
import type { Publisher, Resolution } from '../api/types';
import { changedFields, editOf, fieldsOf, merge, pick, tooLong, type FullEdit } from '../lib/resolution';
import type { StoredEdit } from './edit-storage';
import { DraftText } from './drafting-text.svelte';
import type { Clash, Closed, DraftingDeps, Phase, Saving } from './drafting-types';

const SAVE_AFTER_MS = 2000;
const RETRY_MS = 3000;
/** Time without a change by another person after which that person no longer counts as editing. */
const OTHER_FOR_MS = 15_000;

/**
 * The text of a draft, kept up to date with the server, the device, other windows of the user, and other people.
 * Edits are never dropped: they stay in the fields, and on the device until they are saved.
 */
export abstract class DraftSync extends DraftText {
  readonly fork: string;
  phase = $state<Phase>('opening');
  /** Reason why there is no draft, in one sentence. */
  failed = $state('');
  saving = $state<Saving>('saved');
  saveProblem = $state('');
  posting = $state(false);
  /**
   * The person who has just changed the draft. The fields are locked until that person pauses or someone
   * takes over.
   */
  other = $state.raw<{ who: string | null } | null>(null);
  clash = $state.raw<Clash | null>(null);
  /** Text that the user chose to replace, until it is restored or outdated. */
  previous = $state.raw<FullEdit | null>(null);
  /** A draft that arrived after the user started to write by hand. */
  late = $state.raw<Resolution | null>(null);
  closed = $state.raw<Closed | null>(null);

  protected deps: DraftingDeps;
  protected disposed = false;
  protected saveRun: Promise<boolean> | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #otherTimer: ReturnType<typeof setTimeout> | null = null;
  /** Version that arrived while a save was in flight, possibly the result of that save. */
  #held: Resolution | null = null;
  /** Fields as edited in another window of this user: shown here, but saved only by that window. */
  #mirrored = $state.raw<Partial<FullEdit>>({});
  #unwatch: () => void;

  constructor(fork: string, deps: DraftingDeps) {
    super();
    this.fork = fork;
    this.deps = deps;
    this.#unwatch = deps.editStorage.watch((text) => text && this.#typedElsewhere(text));
  }

  // --- edit and save ---

  touched(): void {
    if (this.phase !== 'editing') return;
    this.#keep();
    // An error stays until the next attempt, so that the layout does not shift when the user clicks outside the field.
    if (this.saving !== 'refused') this.saving = this.dirty ? 'unsaved' : 'saved';
    this.#schedule(SAVE_AFTER_MS);
  }
  /** Called when a field loses the focus: saves without waiting. */
  async left(): Promise<void> {
    if (this.phase === 'editing' && this.dirty && this.saving !== 'later') await this.save();
  }
  /** Saves changes that are within the limits. Returns true if the server has everything. */
  async save(): Promise<boolean> {
    this.clearTimer();
    while (this.saveRun) await this.saveRun;
    if (this.clash || this.phase !== 'editing') return false;
    this.saveRun = this.#save();
    try {
      return await this.saveRun;
    } finally {
      this.saveRun = null;
      const held = this.#held;
      this.#held = null;
      if (held) this.#remote(held);
    }
  }
  async #save(): Promise<boolean> {
    this.forgetIds();
    const now = this.edit;
    const long = tooLong(now);
    const names = this.#own().filter((n) => !long.includes(n));
    if (!names.length) {
      this.saving = long.length ? 'long' : 'saved';
      if (!this.dirty) this.deps.editStorage.clear();
      return !long.length;
    }
    this.saving = 'saving';
    this.saveProblem = '';
    const sent = this.filledActions();
    try {
      const resolution = await this.deps.api.patchResolution(this.fork, this.revision, pick(now, names));
      this.learnIds(sent, resolution);
      this.base = { ...editOf(fieldsOf(resolution)), ...pick(now, names) };
      this.revision = resolution.revision;
      this.resolution = resolution;
    } catch (e) {
      return this.notSaved(e);
    }
    this.failed = '';
    if (this.dirty) this.touched();
    else {
      this.saving = 'saved';
      this.deps.editStorage.clear();
    }
    return !this.dirty;
  }
  protected notSaved(e: unknown): false {
    if (e instanceof Conflict) {
      this.saving = 'unsaved';
      this.#remote(e.current as Resolution, true);
    } else if (e instanceof ApiError && e.code === 'fork_closed') this.end(null, null);
    else if (e instanceof Unreachable) {
      this.saving = 'later';
      if (!this.disposed) this.#schedule(RETRY_MS);
    } else {
      this.saving = 'refused';
      this.saveProblem = errorMessage(e);
    }
    return false;
  }
  #keep(): void {
    if (this.dirty)
      this.deps.editStorage.set({
        base: this.base,
        mine: { ...this.base, ...pick(this.edit, this.#own()) },
      });
    else this.deps.editStorage.clear();
  }
  /** Shows fields that the user edited in another window; fields edited here stay. */
  #typedElsewhere(text: StoredEdit): void {
    if (this.phase !== 'editing') return;
    const own = this.#own();
    const theirs = pick(
      text.mine,
      changedFields(text.base, text.mine).filter((n) => !own.includes(n)),
    );
    const merged = { ...this.edit, ...theirs };
    this.#mirrored = { ...this.#mirrored, ...theirs };
    if (changedFields(this.edit, merged).length) this.fields = fieldsOf(merged, this.fields);
  }
  /** Fields changed in this window. */
  #own(): ReturnType<typeof changedFields> {
    const typed = changedFields({ ...this.edit, ...this.#mirrored }, this.edit);
    return changedFields(this.base, this.edit).filter((n) => !(n in this.#mirrored) || typed.includes(n));
  }
  override get dirty(): boolean {
    return this.#own().length > 0;
  }
  #schedule(ms: number): void {
    this.clearTimer();
    this.#timer = setTimeout(() => void this.save(), ms);
  }
  protected clearTimer(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }

  // --- other people ---

  /** Handles events of resolutions; those of other forks are ignored. */
  onEvent(e: OutcomeEvent): void {
    if (e.type === 'action_item.updated' || e.data.resolution.fork_id !== this.fork) return;
    const r = e.data.resolution;
    if (e.type === 'resolution.published') {
      if (!this.posting) this.end(r.published_by, r.message_id);
    } else if (r.status === 'draft' && this.phase === 'editing') this.#remote(r, false, e.type);
  }
  /** After a reconnection, saves local edits and loads those of others. */
  async refresh(): Promise<void> {
    if (this.phase !== 'editing' || this.posting || this.clash) return;
    if (this.dirty) return void (await this.save());
    if (!this.resolution) return;
    try {
      const resolution = await this.deps.api.resolution(this.fork);
      if (!this.disposed && resolution.status === 'draft') this.#remote(resolution, false, 'refresh');
    } catch {
      // Events and the next save have the same effect as this request.
    }
  }
  protected whoOf(r: Resolution): string | null {
    return r.edited_by.findLast((id) => id !== this.deps.myId) ?? r.edited_by.at(-1) ?? null;
  }
  #remote(theirs: Resolution, sure = false, type = 'resolution.updated'): void {
    if (this.saveRun && !sure) {
      this.#held = theirs;
      return;
    }
    if (theirs.id === this.resolution?.id && theirs.revision <= this.revision) return;
    const base = editOf(fieldsOf(theirs));
    if (!this.resolution && !this.empty && !theirs.edited_by.length) {
      this.late = theirs;
      this.#take(theirs, this.edit);
      return this.touched();
    }
    const own = { ...this.base, ...pick(this.edit, this.#own()) };
    const { merged, clashes } = merge(this.base, own, base);
    const who = this.whoOf(theirs);
    if (clashes.length) {
      this.clearTimer();
      this.clash = { theirs, fields: clashes, who };
      return;
    }
    const clean = !this.dirty;
    this.#take(theirs, merged);
    if (!clean) this.touched();
    else if (type === 'resolution.updated') this.#busy(who);
  }
  #take(r: Resolution, shown: FullEdit): void {
    this.put(r, r.revision, shown);
    this.clash = null;
    this.failed = '';
    this.saving = this.dirty ? 'unsaved' : 'saved';
    this.#keep();
  }
  #busy(who: string | null): void {
    this.other = { who };
    if (this.#otherTimer) clearTimeout(this.#otherTimer);
    this.#otherTimer = setTimeout(() => (this.other = null), OTHER_FOR_MS);
  }
  /** The user's version wins where both people changed the text; the other person's remaining changes stay. */
  async takeOver(): Promise<void> {
    this.other = null;
    const clash = this.clash;
    if (!clash) return;
    const base = editOf(fieldsOf(clash.theirs));
    this.#take(clash.theirs, merge(this.base, this.edit, base).merged);
    await this.save();
  }
  useTheirs(): void {
    const clash = this.clash;
    if (!clash) return;
    this.previous = this.edit;
    this.#take(clash.theirs, editOf(fieldsOf(clash.theirs)));
  }
  useLate(): void {
    if (!this.late) return;
    this.previous = this.edit;
    this.fields = fieldsOf(editOf(fieldsOf(this.late)), this.fields);
    this.late = null;
    this.touched();
  }
  /** Restores the replaced text over the current one. */
  bringBack(): void {
    if (!this.previous) return;
    this.fields = fieldsOf(this.previous, this.fields);
    this.previous = null;
    this.touched();
  }
  end(by: Publisher | null, card: string | null): void {
    this.clearTimer();
    this.closed = { by: by ?? this.closed?.by ?? null, card: card ?? this.closed?.card ?? null };
    this.phase = 'closed';
  }

  /** Treats everything on screen as edited in this window. */
  protected claim(): void {
    this.#mirrored = {};
  }
  /** Called when the editor closes: saves pending edits, which are kept on the device until they are saved. */
  dispose(): void {
    if (this.phase === 'editing' && this.dirty && !this.clash) void this.save();
    this.disposed = true;
    this.#unwatch();
    this.clearTimer();
    if (this.#otherTimer) clearTimeout(this.#otherTimer);
  }
}
