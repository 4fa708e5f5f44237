import { ApiError, isMissing, errorMessage } from '../api/problem';
import type { Fork, Message, Resolution, Task } from '../api/types';
import { editOf, fieldsOf, merge, NOTHING } from '../lib/resolution';
import { DraftSync } from './drafting-sync.svelte';
import { isActive } from './tasks.svelte';

/** Draft of one resolution while a person has it open: started, followed, edited, saved, and posted. */
export class Drafting extends DraftSync {
  /** ID of the drafting task, while it runs. */
  taskId = $state<string | null>(null);
  /** True if a person stopped the drafting, which is not a failure. */
  stopped = $state(false);
  postProblem = $state('');
  /** Guidance of a redraft that would replace edits and waits for confirmation. */
  asking = $state<string | null>(null);

  /** True if there is a posted resolution to continue from if drafting fails. */
  #posted = false;

  // --- start or load a draft ---

  /** `edit`: start from the posted text instead of a new draft. `running`: a task that is drafting already. */
  async open(fork: Fork, running: Task | null, edit: boolean): Promise<void> {
    if (fork.status !== 'active') return this.end(null, null);
    this.#posted = fork.resolution_id !== null;
    if (running) return this.#watch(running);
    if (fork.draft_id || (fork.resolution_id && (edit || !fork.stale))) return this.#load();
    if (this.deps.editStorage.get()) return this.#show(null);
    return this.draft();
  }
  async draft(guidance = '', replace = false): Promise<void> {
    this.failed = '';
    this.stopped = false;
    this.asking = null;
    this.phase = 'drafting';
    this.taskId = null;
    this.clearTimer();
    const body = { ...(guidance ? { guidance } : {}), ...(replace ? { replace_draft: true } : {}) };
    try {
      const { task } = await this.deps.api.resolve(this.fork, body);
      this.deps.learnTasks([task]);
      if (this.phase === 'drafting') return this.disposed ? undefined : await this.#watch(task);
      await this.deps.api.stopTask(task.id).catch(() => undefined); // the user writes by hand in the meantime
    } catch (e) {
      if (this.disposed) return;
      if (e instanceof ApiError && e.code === 'draft_edited') {
        this.previous = null;
        await this.#load(); // shows the other person's version
        this.asking = guidance;
      } else if (e instanceof ApiError && e.code === 'fork_closed') this.end(null, null);
      else await this.#noDraft(errorMessage(e));
    }
  }
  /** Requests a new draft. Asks for confirmation if people have edited the current one. */
  async redraft(guidance: string, sure = false): Promise<void> {
    const edited = this.resolution?.status === 'draft' && this.resolution.edited_by.length > 0;
    if (!sure && (this.dirty || edited)) {
      this.asking = guidance;
      return;
    }
    await this.saveRun;
    this.previous = this.empty ? null : this.edit;
    this.clash = null;
    await this.draft(guidance, sure);
  }
  /** Follows a draft that someone else requested in the meantime. */
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
      task.status === 'cancelled' ? 'Stopped.' : `${this.deps.drafter()} couldn’t draft this.`,
    );
  }
  async stop(): Promise<void> {
    if (this.taskId) this.deps.learnTasks([await this.deps.api.stopTask(this.taskId)]);
  }
  /** Stops waiting for the draft: the fields stay as they are, and the task is canceled. */
  async byHand(): Promise<void> {
    const task = this.taskId;
    this.taskId = null;
    await this.#noDraft('');
    if (task) await this.deps.api.stopTask(task).catch(() => undefined); // it may have already ended
  }
  async #watch(task: Task): Promise<void> {
    this.phase = 'drafting';
    this.taskId = task.id;
    await this.follow(task);
  }
  /** Continues without a draft, with the current fields or, if they are empty, the posted resolution. */
  async #noDraft(why: string): Promise<void> {
    if (!this.resolution && this.#posted && this.empty) await this.#load();
    if (this.phase === 'error') return;
    this.failed = why;
    this.phase = 'editing';
  }
  async #load(): Promise<void> {
    try {
      const resolution = await this.deps.api.resolution(this.fork);
      if (!this.disposed) this.#show(resolution);
    } catch (e) {
      if (this.disposed) return;
      if (isMissing(e)) {
        this.#posted = false;
        return this.#noDraft(`${this.deps.drafter()} couldn’t draft this.`);
      }
      this.failed = errorMessage(e);
      this.phase = this.empty ? 'error' : 'editing';
    }
  }
  /** Opens a draft for editing; unsaved edits from this device are applied to it. */
  #show(r: Resolution | null): void {
    const kept = this.previous ? null : this.deps.editStorage.get();
    if (this.previous) this.deps.editStorage.clear();
    const theirs = r ? editOf(fieldsOf(r)) : NOTHING;
    const { merged, clashes } = kept ? merge(kept.base, kept.mine, theirs) : { merged: theirs, clashes: [] };
    this.put(r, r?.revision ?? 0, merged);
    this.phase = 'editing';
    this.failed = '';
    this.saving = 'saved';
    if (kept && clashes.length && r) {
      this.base = kept.base;
      this.clash = { theirs: r, fields: clashes, who: this.whoOf(r) };
    }
    if (kept) this.touched();
  }

  // --- post ---

  /** Publishes the resolution. Returns the resolution message; null if it was not posted. */
  async post(): Promise<Message | null> {
    if (this.posting || this.problems.length || this.clash || this.phase !== 'editing') return null;
    this.posting = true;
    this.postProblem = '';
    this.claim(); // what is on screen is posted
    try {
      if (this.resolution && this.dirty && !(await this.save())) return this.#notPosted();
      const whole = this.resolution ? null : this.edit;
      const { message, resolution } = await this.deps.api.publish(
        this.fork,
        whole,
        this.resolution ? this.revision : null,
      );
      if (message.author.id !== this.deps.myId) {
        this.end(resolution.published_by, message.id); // someone else posted first
        return null;
      }
      this.clearTimer();
      this.deps.editStorage.clear();
      return message;
    } catch (e) {
      this.notSaved(e);
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
}
