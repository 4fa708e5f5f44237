import { at, type Transport } from './http';
import type { components } from './schema';

type S = components['schemas'];

/** A tool call. Arguments and result are missing for people who cannot decide about it. */
export type Action = S['Action'];
export type Grant = S['Grant'];
export type Need = S['Need'];
export type ActionState = S['ActionState'];
export type ToolErrorCode = S['ToolErrorCode'];
/** Decisions that wait for the user. */
export type Waiting = S['WaitingSeen'];
export type ChangedTool = S['ChangedTool'];
export type Settlement = S['Settlement'];

/** Maximum page size; no task has more actions. */
const TASK_ACTIONS_MAX = 100;

/** API client for actions, `api.part(ActionsApi)`. Loaded after startup. */
export class ActionsApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  get(id: string): Promise<Action> {
    return this.#take(this.#http.GET('/v1/actions/{id}', at({ id })));
  }
  async ofTask(task_id: string): Promise<Action[]> {
    const params = { query: { task_id, limit: TASK_ACTIONS_MAX } };
    return (await this.#take(this.#http.GET('/v1/actions', { params }))).data;
  }
  /** The newest actions that wait for a decision, whoever has to make it. */
  async open(): Promise<Action[]> {
    const params = { query: { state: 'waiting', limit: TASK_ACTIONS_MAX } } as const;
    return (await this.#take(this.#http.GET('/v1/actions', { params }))).data;
  }
  waiting(): Promise<Waiting> {
    return this.#take(this.#http.GET('/v1/waiting'));
  }
  /**
   * Approves only the arguments that the user saw. `hour` also allows further calls of the function in the
   * conversation for an hour.
   */
  approve(a: Action, term: 'hour' | null = null): Promise<Action> {
    const body = { arguments_hash: a.arguments_hash ?? '', ...(term ? { for: term } : {}) };
    return this.#take(this.#http.POST('/v1/actions/{id}/approve', { ...at({ id: a.id }), body }));
  }
  deny(a: Action, note: string): Promise<Action> {
    const body = { arguments_hash: a.arguments_hash ?? '', ...(note ? { note } : {}) };
    return this.#take(this.#http.POST('/v1/actions/{id}/deny', { ...at({ id: a.id }), body }));
  }
  settle(id: string, outcome: Settlement): Promise<Action> {
    return this.#take(this.#http.POST('/v1/actions/{id}/settle', { ...at({ id }), body: { outcome } }));
  }
  async revoke(grant: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/grants/{id}', at({ id: grant })));
  }
}
