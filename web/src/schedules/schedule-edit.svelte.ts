import { ApiError, Conflict, errorMessage } from '../api/problem';
import type { Schedule, SchedulesApi } from '../api/schedules';
import {
  changedIn,
  fieldOf,
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
export class ScheduleEdit {
  /** The schedule as last loaded or saved; null for a new one. */
  schedule = $state.raw<Schedule | null>(null);
  fields = $state.raw<ScheduleFields>({} as ScheduleFields);
  busy = $state(false);
  problem = $state.raw<FieldProblem | null>(null);
  /** Newer values of fields that both the user and someone else changed. */
  clashes = $state.raw<Partial<ScheduleFields>>({});
  /** Incremented when the times change other than by typing. */
  round = $state(0);
  #start = $state.raw<ScheduleFields>({} as ScheduleFields);
  #api: EditApi;

  readonly dirty = $derived(changedIn(this.#start, this.fields).length > 0);
  readonly clashing = $derived(Object.keys(this.clashes) as FieldKey[]);

  constructor(api: EditApi, start: Schedule | ScheduleFields) {
    this.#api = api;
    if ('id' in start) this.schedule = start;
    this.fields = 'id' in start ? fieldsOf(start) : start;
    this.#start = this.fields;
  }
  set(more: Partial<ScheduleFields>): void {
    this.fields = { ...this.fields, ...more };
    if (this.problem?.field && this.problem.field in more) this.problem = null;
  }
  /** Adopts the newer value of a field. */
  take(field: FieldKey): void {
    const { [field]: newer, ...rest } = this.clashes;
    if (newer === undefined) return;
    this.set({ [field]: newer });
    this.clashes = rest;
    if (field === 'cron') this.round++;
  }
  /** Saves the changes, even over the newer values that are shown. Returns null on failure. */
  async save(): Promise<Schedule | null> {
    if (this.busy) return null;
    this.busy = true;
    this.problem = null;
    try {
      return await this.#send().catch((e: unknown) => this.#sendAgain(e));
    } catch (e) {
      this.problem = problemOf(e);
      return null;
    } finally {
      this.busy = false;
    }
  }
  async #send(): Promise<Schedule> {
    if (!this.schedule) return this.#api.create(formOf(this.fields));
    if (!this.dirty) return this.schedule;
    const { id, version } = this.schedule;
    return this.#api.patch(id, version, patchOf(this.#start, this.fields));
  }
  /**
   * Handles a conflict: the user decides about fields that both changed; if there are none, the changes are
   * sent again.
   */
  async #sendAgain(e: unknown): Promise<Schedule | null> {
    if (!(e instanceof Conflict)) throw e;
    this.#rebase(e.current as Schedule);
    return this.clashing.length ? null : this.#send();
  }
  /**
   * Applies the changes to a newer version. Changes that contradict it are kept, and shown next to the newer
   * values.
   */
  #rebase(theirs: Schedule): void {
    const newer = fieldsOf(theirs);
    const mine = changedIn(this.#start, this.fields);
    const both = mine.filter((k) => newer[k] !== this.#start[k] && newer[k] !== this.fields[k]);
    const pick = (keys: FieldKey[], from: ScheduleFields): Partial<ScheduleFields> =>
      Object.fromEntries(keys.map((k) => [k, from[k]]));
    if (newer.cron !== this.#start.cron) this.round++;
    this.fields = { ...newer, ...pick(mine, this.fields) };
    this.clashes = pick(both, newer);
    this.schedule = theirs;
    this.#start = newer;
  }
}
