import { at, ifMatch, type Transport } from './http';
import { allPages } from './pages';
import type { components } from './schema';
import type { Task } from './types';

type S = components['schemas'];

/** Starts an agent at given times, on behalf of the schedule's owner. */
export type Schedule = S['Schedule'];
export type NewSchedule = S['ScheduleForm'];
export type SchedulePatch = S['SchedulePatch'];
export type ScheduleTarget = NewSchedule['target'];
export type ScheduleDelivery = NewSchedule['deliver'];
export type LastSlot = NonNullable<Schedule['last_slot']>;
/** An instant, and its local time in the schedule's zone. */
export type NextRun = S['PreviewedSlot'];

/** API client for schedules, `api.part(SchedulesApi)`. Loaded with their page. */
export class SchedulesApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  /** Oldest first. */
  all(): Promise<Schedule[]> {
    return allPages((query) => this.#take(this.#http.GET('/v1/schedules', { params: { query } })));
  }
  create(body: NewSchedule): Promise<Schedule> {
    return this.#take(this.#http.POST('/v1/schedules', { body }));
  }
  /**
   * Fails with `Conflict` if the schedule no longer has `version`; null applies the change to any version.
   */
  patch(id: string, version: number | null, body: SchedulePatch): Promise<Schedule> {
    const params = { path: { id }, header: version === null ? {} : ifMatch(version) };
    return this.#take(this.#http.PATCH('/v1/schedules/{id}', { params, body }));
  }
  async remove(id: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/schedules/{id}', at({ id })));
  }
  /** Runs the schedule now, in addition to its regular times. */
  async run(id: string): Promise<Task> {
    return (await this.#take(this.#http.POST('/v1/schedules/{id}/run', at({ id })))).task;
  }
  /** The next five runs. */
  async preview(cron: string, timezone: string): Promise<NextRun[]> {
    const body = { cron, timezone };
    return (await this.#take(this.#http.POST('/v1/schedules/preview', { body }))).next;
  }
}
