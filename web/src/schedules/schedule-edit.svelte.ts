import { ApiError, Conflict, errorMessage } from '../api/problem';
import type { Schedule, SchedulesApi } from '../api/schedules';
import { changes, clashesIn } from '../lib/merge';
import type { EditStorage } from '../state/edit-storage';
import { SharedEdit, type KeptEdit } from '../state/shared-edit.svelte';
import {
  fieldOf,
  FIELDS,
  fieldsOf,
  formOf,
  patchOf,
  type FieldKey,
  type ScheduleFields,
} from './schedule-fields';

/** An error, and the field that it belongs to, if any. */
export interface FieldProblem {
  field: FieldKey | null;
  text: string;
}
export const problemOf = (e: unknown): FieldProblem => ({
  field: e instanceof ApiError && e.status === 422 ? fieldOf(e.param) : null,
  text: errorMessage(e),
});
export type EditApi = Pick<SchedulesApi, 'create' | 'patch'>;

/** A new schedule, or one that is being edited. Changes are saved only over the version that they started from. */
export class ScheduleEdit extends SharedEdit<ScheduleFields> {
  /** Newest known version of the schedule; null for a new one. */
  schedule = $state.raw<Schedule | null>(null);
  busy = $state(false);
  problem = $state.raw<FieldProblem | null>(null);
  /** Incremented when the times change other than by typing. */
  round = $state(0);
  #api: EditApi;

  readonly dirty: boolean = $derived(this.isChanged);
  /** Newer values of fields that both the user and someone else changed. */
  readonly clashes: Partial<ScheduleFields> = $derived(this.#clashes());
  readonly clashing = $derived(Object.keys(this.clashes) as FieldKey[]);

  constructor(api: EditApi, from: Schedule | ScheduleFields, storage: EditStorage<KeptEdit<ScheduleFields>>) {
    super(storage);
    this.#api = api;
    this.#begin(from);
    this.restore();
  }
  protected override received(): void {
    this.round++;
    this.#rebase();
  }
  #begin(from: Schedule | ScheduleFields): void {
    if ('id' in from) {
      this.schedule = from;
      this.version = from.version;
    }
    this.start = this.fields = 'id' in from ? fieldsOf(from) : from;
    this.restored = false;
    this.problem = null;
    this.round++;
  }
  set(more: Partial<ScheduleFields>): void {
    this.fields = { ...this.fields, ...more };
    if (this.problem?.field && this.problem.field in more) this.problem = null;
    this.keepSoon();
  }
  /** Adopts the newer value of a field. */
  take(field: FieldKey): void {
    const newer = this.clashes[field];
    if (newer === undefined) return;
    this.set({ [field]: newer });
    if (field === 'cron') this.round++;
  }
  /** Discards the changes in favor of the newest version. */
  discard(): void {
    this.#begin(this.schedule ?? this.start);
    this.keep();
  }
  /** Saves the changes, even over the newer values that are shown. Returns null on failure. */
  async save(): Promise<Schedule | null> {
    if (this.busy) return null;
    this.busy = true;
    this.problem = null;
    try {
      this.#accept();
      const saved = await this.#send().catch((e: unknown) => this.#sendAgain(e));
      if (!saved) return null;
      this.#begin(saved);
      this.keep();
      return saved;
    } catch (e) {
      this.problem = problemOf(e);
      return null;
    } finally {
      this.busy = false;
    }
  }
  async #send(): Promise<Schedule> {
    if (!this.schedule) return this.#api.create(formOf(this.fields));
    if (!this.isChanged) return this.schedule;
    return this.#api.patch(this.schedule.id, this.version, patchOf(this.start, this.fields));
  }
  /**
   * Handles a conflict: the user decides about fields that someone else changed, too. If there are none, the
   * changes are sent again.
   */
  async #sendAgain(e: unknown): Promise<Schedule | null> {
    if (!(e instanceof Conflict)) throw e;
    this.schedule = e.current as Schedule;
    this.#rebase();
    return this.clashing.length ? null : this.#send();
  }
  /**
   * Applies the changes to the newest version. Changes that contradict it are kept, and shown next to the newer
   * values; until the user decides, the changes are stored with the version that they started from.
   */
  #rebase(): void {
    const newer = this.#newer();
    if (!newer) return;
    const mine = changes(this.start, this.fields);
    this.start = { ...newer, ...changes(this.fields, this.start) };
    this.fields = { ...newer, ...mine };
    this.round++;
    if (!Object.keys(this.#clashes()).length) this.#accept();
  }
  /** Moves the changes on top of the newest version. */
  #accept(): void {
    const newer = this.#newer();
    if (!newer) return;
    this.start = newer;
    this.version = this.schedule!.version;
  }
  /** Fields of the newest version if the changes started from an older one. */
  #newer(): ScheduleFields | null {
    return this.schedule && this.schedule.version > this.version ? fieldsOf(this.schedule) : null;
  }
  #clashes(): Partial<ScheduleFields> {
    const newer = this.#newer();
    const all = newer ? clashesIn(FIELDS, this.start, this.fields, newer) : [];
    return Object.fromEntries(all.filter((c) => c.by === 'both').map((c) => [c.field, c.theirs]));
  }
}
