import { at, type Transport } from './http';
import type { components } from './schema';
import type { Task } from './types';

export type TaskTree = components['schemas']['TaskTree'];
export type HiddenTask = components['schemas']['HiddenTask'];
/** Repetition score at which a tree that was stopped for repetitions and then retried is stopped again. */
const GUARD_AGAIN = 8;

/** API client for task trees. Loaded on demand. */
export class TaskTreesApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor({ http, take }: Transport) {
    this.#http = http;
    this.#take = take;
  }

  get(task: string): Promise<TaskTree> {
    return this.#take(this.#http.GET('/v1/tasks/{id}/tree', at({ id: task })));
  }
  /** Restarts a tree that was stopped because of repetitions. */
  tryAgain(root: string): Promise<Task> {
    return this.#take(
      this.#http.POST('/v1/tasks/{id}/retry', { ...at({ id: root }), body: { guard: GUARD_AGAIN } }),
    );
  }
  /** Stops every active task of the tree. */
  stop(task: string): Promise<Task> {
    return this.#take(
      this.#http.POST('/v1/tasks/{id}/cancel', { ...at({ id: task }), body: { scope: 'tree' } }),
    );
  }
}
