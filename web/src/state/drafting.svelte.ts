import type { Api } from '../api/api';
import type { OutcomeEvent } from '../api/events';
import { ApiError, Conflict, isMissing, errorMessage, Unreachable } from '../api/problem';
import type { Fork, Message, Publisher, Resolution, Task } from '../api/types';
import {
  changedFields,
  editOf,
  fieldsOf,
  merge,
  NOTHING,
  pick,
  tooLong,
  type FieldName,
  type FullEdit,
} from '../lib/resolution';
import type { EditStorage, StoredEdit } from './edit-storage';
import { DraftText } from './drafting-text.svelte';
import { isActive } from './tasks.svelte';

export type DraftingApi = Pick<Api, 'resolve' | 'resolution' | 'patchResolution' | 'publish' | 'stopTask'>;
export interface DraftingDeps {
  readonly api: DraftingApi;
  readonly myId: string;
  readonly editStorage: EditStorage;
  learnTasks(tasks: Task[]): void;
  /** Name of the drafting agent, for messages. */
  drafter(): string;
}

/** `opening`: loading the state. `closed`: the dive was resolved or abandoned in the meantime. */
export type Phase = 'opening' | 'drafting' | 'editing' | 'closed' | 'error';
/** `later`: no network. `long`: text over the limit waits on the device. `refused`: see `saveProblem`. */
export type Saving = 'saved' | 'unsaved' | 'saving' | 'later' | 'long' | 'refused';
export interface Clash {
  theirs: Resolution;
  fields: FieldName[];
  who: string | null;
}
export interface Closed {
  by: Publisher | null;
  card: string | null;
}

const SAVE_AFTER_MS = 2000;
const RETRY_MS = 3000;
/** Time without a change of theirs after which another person no longer counts as editing. */
const OTHER_FOR_MS = 15_000;

/**
 * Draft of one result while a person has it open: started, followed, edited, saved, and posted.
 * Edits are never dropped: they stay in the fields, and on the device until they are saved.
 */
export class Drafting extends DraftText {
  readonly fork: string;
  phase = $state<Phase>('opening');
  /** Task that drafts, while it runs. */
  taskId = $state<string | null>(null);
  /** Why there is no draft, in one sentence. */
  failed = $state('');
  /** Drafting was stopped by a person, which is not a failure. */
  stopped = $state(false);
  saving = $state<Saving>('saved');
  saveProblem = $state('');
  posting = $state(false);
  postProblem = $state('');
  /** Person who changed the draft just now; the fields are locked until they pause or someone takes over. */
  other = $state.raw<{ who: string | null } | null>(null);
  clash = $state.raw<Clash | null>(null);
  /** Guidance of a redraft that would replace edits and waits for confirmation. */
  asking = $state<string | null>(null);
  /** Text before it was replaced by choice. */
  previous = $state.raw<FullEdit | null>(null);
  /** A draft that arrived after the user started to write by hand. */
  late = $state.raw<Resolution | null>(null);
  closed = $state.raw<Closed | null>(null);

  #deps: DraftingDeps;
  /** There is a posted result to continue from, if drafting fails. */
  #posted = false;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #otherTimer: ReturnType<typeof setTimeout> | null = null;
  #saveRun: Promise<boolean> | null = null;
  /** Arrived while a save was in flight: it may be that save. */
  #held: Resolution | null = null;
  #stopped = false;
  /** Fields as another window of this person has them: shown here, but kept and saved only there. */
  #mirrored = $state.raw<Partial<FullEdit>>({});

  #unwatch: () => void;

  constructor(fork: string, deps: DraftingDeps) {
    super();
    this.fork = fork;
    this.#deps = deps;
    this.#unwatch = deps.editStorage.watch((text) => this.#typedElsewhere(text));
  }

  // --- start or load a draft ---

  /** `edit`: start from the posted text instead of a new draft. `running`: a task that is drafting already. */
  async open(fork: Fork, running: Task | null, edit: boolean): Promise<void> {
    if (fork.status !== 'active') return this.end(null, null);
    this.#posted = fork.resolution_id !== null;
    if (running) return this.#watch(running);
    if (fork.draft_id || (fork.resolution_id && (edit || !fork.stale))) return this.#load();
    if (this.#deps.editStorage.get()) return this.#show(null);
    return this.draft();
  }
  async draft(guidance = '', replace = false): Promise<void> {
    this.failed = '';
    this.stopped = false;
    this.asking = null;
    this.phase = 'drafting';
    this.taskId = null;
    this.#clearTimer();
    const body = { ...(guidance ? { guidance } : {}), ...(replace ? { replace_draft: true } : {}) };
    try {
      const { task } = await this.#deps.api.resolve(this.fork, body);
      this.#deps.learnTasks([task]);
      if (this.phase === 'drafting') return this.#stopped ? undefined : await this.#watch(task);
      await this.#deps.api.stopTask(task.id).catch(() => undefined); // the user writes by hand in the meantime
    } catch (e) {
      if (this.#stopped) return;
      if (e instanceof ApiError && e.code === 'draft_edited') {
        this.previous = null;
        await this.#load(); // their version
        this.asking = guidance;
      } else if (e instanceof ApiError && e.code === 'fork_closed') this.end(null, null);
      else await this.#noDraft(errorMessage(e));
    }
  }
  /** Asks for confirmation if people have edited the draft. */
  async redraft(guidance: string, sure = false): Promise<void> {
    const edited = this.resolution?.status === 'draft' && this.resolution.edited_by.length > 0;
    if (!sure && (this.dirty || edited)) {
      this.asking = guidance;
      return;
    }
    await this.#saveRun;
    this.previous = this.empty ? null : this.edit;
    this.clash = null;
    await this.draft(guidance, sure);
  }
  /** Someone else requested a draft in the meantime. */
  async adopt(task: Task): Promise<void> {
    this.failed = '';
    await this.#watch(task);
  }
  /** Handles changes of the watched task. */
  async follow(task: Task): Promise<void> {
    if (task.id !== this.taskId || isActive(task) || this.phase !== 'drafting') return;
    this.taskId = null;
    if (task.status === 'completed') return this.#load();
    this.stopped = task.status === 'cancelled';
    await this.#noDraft(
      task.status === 'cancelled' ? 'Stopped.' : `${this.#deps.drafter()} couldn't draft this.`,
    );
  }
  async stop(): Promise<void> {
    if (this.taskId) this.#deps.learnTasks([await this.#deps.api.stopTask(this.taskId)]);
  }
  /** Stops waiting for the draft: the fields stay as they are, and the task is canceled. */
  async byHand(): Promise<void> {
    const task = this.taskId;
    this.taskId = null;
    await this.#noDraft('');
    if (task) await this.#deps.api.stopTask(task).catch(() => undefined); // it may have ended by itself
  }
  async #watch(task: Task): Promise<void> {
    this.phase = 'drafting';
    this.taskId = task.id;
    await this.follow(task);
  }
  /** The fields as they are; the posted result if they are empty. */
  async #noDraft(why: string): Promise<void> {
    if (!this.resolution && this.#posted && this.empty) await this.#load();
    if (this.phase === 'error') return;
    this.failed = why;
    this.phase = 'editing';
  }
  async #load(): Promise<void> {
    try {
      const resolution = await this.#deps.api.resolution(this.fork);
      if (!this.#stopped) this.#show(resolution);
    } catch (e) {
      if (this.#stopped) return;
      if (isMissing(e)) {
        this.#posted = false;
        return this.#noDraft(`${this.#deps.drafter()} couldn't draft this.`);
      }
      this.failed = errorMessage(e);
      this.phase = this.empty ? 'error' : 'editing';
    }
  }
  /** Opens a draft for editing; unsaved edits from this device are applied to it. */
  #show(r: Resolution | null): void {
    const kept = this.previous ? null : this.#deps.editStorage.get();
    if (this.previous) this.#deps.editStorage.clear();
    const theirs = r ? editOf(fieldsOf(r)) : NOTHING;
    const { merged, clashes } = kept ? merge(kept.base, kept.mine, theirs) : { merged: theirs, clashes: [] };
    this.put(r, r?.revision ?? 0, merged);
    this.phase = 'editing';
    this.failed = '';
    this.saving = 'saved';
    if (kept && clashes.length && r) {
      this.base = kept.base;
      this.clash = { theirs: r, fields: clashes, who: this.#whoOf(r) };
    }
    if (kept) this.touched();
  }

  // --- edit and save ---

  touched(): void {
    if (this.phase !== 'editing') return;
    this.#keep();
    // An error stays until the next attempt, so that nothing moves under the pointer that leaves a field.
    if (this.saving !== 'refused') this.saving = this.dirty ? 'unsaved' : 'saved';
    this.#schedule(SAVE_AFTER_MS);
  }
  /** A field lost the focus: save without waiting. */
  async left(): Promise<void> {
    if (this.phase === 'editing' && this.dirty && this.saving !== 'later') await this.save();
  }
  /** Saves changes that fit. True if the server has everything. */
  async save(): Promise<boolean> {
    this.#clearTimer();
    while (this.#saveRun) await this.#saveRun;
    if (this.clash || this.phase !== 'editing') return false;
    this.#saveRun = this.#save();
    try {
      return await this.#saveRun;
    } finally {
      this.#saveRun = null;
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
      if (!this.dirty) this.#deps.editStorage.clear();
      return !long.length;
    }
    this.saving = 'saving';
    this.saveProblem = '';
    const sent = this.filledActions();
    try {
      const resolution = await this.#deps.api.patchResolution(this.fork, this.revision, pick(now, names));
      this.learnIds(sent, resolution);
      this.base = { ...editOf(fieldsOf(resolution)), ...pick(now, names) };
      this.revision = resolution.revision;
      this.resolution = resolution;
    } catch (e) {
      return this.#notSaved(e);
    }
    this.failed = '';
    if (this.dirty) this.touched();
    else {
      this.saving = 'saved';
      this.#deps.editStorage.clear();
    }
    return !this.dirty;
  }
  #notSaved(e: unknown): false {
    if (e instanceof Conflict) {
      this.saving = 'unsaved';
      this.#remote(e.current as Resolution, true);
    } else if (e instanceof ApiError && e.code === 'fork_closed') this.end(null, null);
    else if (e instanceof Unreachable) {
      this.saving = 'later';
      if (!this.#stopped) this.#schedule(RETRY_MS);
    } else {
      this.saving = 'refused';
      this.saveProblem = errorMessage(e);
    }
    return false;
  }
  #keep(): void {
    if (this.dirty)
      this.#deps.editStorage.set({
        base: this.base,
        mine: { ...this.base, ...pick(this.edit, this.#own()) },
      });
    else this.#deps.editStorage.clear();
  }
  /** Fields edited in another window of this user; fields edited here stay. */
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
    this.#clearTimer();
    this.#timer = setTimeout(() => void this.save(), ms);
  }
  #clearTimer(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }

  // --- other people ---

  /** Events of results; those of other dives are ignored. */
  onEvent(e: OutcomeEvent): void {
    if (e.type === 'action_item.updated' || e.data.resolution.fork_id !== this.fork) return;
    const r = e.data.resolution;
    if (e.type === 'resolution.published') {
      if (!this.posting) this.end(r.published_by, r.message_id);
    } else if (r.status === 'draft' && this.phase === 'editing') this.#remote(r, false, e.type);
  }
  /** The connection is back: saves local edits and loads those of others. */
  async refresh(): Promise<void> {
    if (this.phase !== 'editing' || this.posting || this.clash) return;
    if (this.dirty) return void (await this.save());
    if (!this.resolution) return;
    try {
      const resolution = await this.#deps.api.resolution(this.fork);
      if (!this.#stopped && resolution.status === 'draft') this.#remote(resolution, false, 'refresh');
    } catch {
      // Events and the next save report it as well.
    }
  }
  #whoOf(r: Resolution): string | null {
    return r.edited_by.findLast((id) => id !== this.#deps.myId) ?? r.edited_by.at(-1) ?? null;
  }
  #remote(theirs: Resolution, sure = false, type = 'resolution.updated'): void {
    if (this.#saveRun && !sure) {
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
    const who = this.#whoOf(theirs);
    if (clashes.length) {
      this.#clearTimer();
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
  /** My version wins where both differ; their other changes stay. */
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
    this.#clearTimer();
    this.closed = { by: by ?? this.closed?.by ?? null, card: card ?? this.closed?.card ?? null };
    this.phase = 'closed';
  }

  // --- post ---

  /** The card, once it is in the thread; null if it was not posted and nothing changed. */
  async post(): Promise<Message | null> {
    if (this.posting || this.problems.length || this.clash || this.phase !== 'editing') return null;
    this.posting = true;
    this.postProblem = '';
    this.#mirrored = {}; // what is on screen is posted
    try {
      if (this.resolution && this.dirty && !(await this.save())) return this.#notPosted();
      const whole = this.resolution ? null : this.edit;
      const { message, resolution } = await this.#deps.api.publish(
        this.fork,
        whole,
        this.resolution ? this.revision : null,
      );
      if (message.author.id !== this.#deps.myId) {
        this.end(resolution.published_by, message.id); // someone else posted first
        return null;
      }
      this.#clearTimer();
      this.#deps.editStorage.clear();
      return message;
    } catch (e) {
      this.#notSaved(e);
      if (this.phase !== 'editing') return null;
      if (!this.dirty) this.saving = 'saved'; // the text is saved, only its card is missing
      return this.#notPosted(e);
    } finally {
      this.posting = false;
    }
  }
  #notPosted(e: unknown = null): null {
    if (this.clash || this.other)
      this.postProblem = 'Not posted: it was changed in the meantime. Review it, then post again.';
    else
      this.postProblem = `Not posted. ${e ? errorMessage(e) : this.saveProblem || 'The server cannot be reached.'} Your text is kept.`;
    return null;
  }

  /** The editor closes: saves pending edits, which stay on the device until they are saved. */
  dispose(): void {
    if (this.phase === 'editing' && this.dirty && !this.clash) void this.save();
    this.#stopped = true;
    this.#unwatch();
    this.#clearTimer();
    if (this.#otherTimer) clearTimeout(this.#otherTimer);
  }
}
