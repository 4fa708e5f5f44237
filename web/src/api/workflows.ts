import { at, ifMatch, type Transport } from './http';
import { allPages } from './pages';
import type { components } from './schema';
import type { List } from './types';

type S = components['schemas'];

/** A list of steps that people, messages, and schedules start. */
export type Workflow = S['Workflow'];
export type NewWorkflow = S['WorkflowForm'];
export type WorkflowPatch = S['WorkflowPatch'];
export type WorkflowVersion = S['WorkflowVersion'];
/** Prefilled fields of a new workflow. */
export type WorkflowRecipe = S['WorkflowRecipe'];
export type WorkflowRun = S['WorkflowRun'];
export type NewRun = S['RunForm'] & { client_id: string };

export type Step = Workflow['steps'][number];
export type StepKind = Step['kind'];
export type StepOf<K extends StepKind> = Extract<Step, { kind: K }>;
type StoredTrigger = NonNullable<Workflow['on_message']>;
/** Fields that only messages of bots use; kept as they are. */
type OfBots = 'hook_ids' | 'daily_max';
/** Messages that start a run. */
export type Trigger = Required<Omit<StoredTrigger, OfBots>> & Pick<StoredTrigger, OfBots>;

const RUNS_MAX = 100;

/** API client for workflows, `api.part(WorkflowsApi)`. Loaded with their pages. */
export class WorkflowsApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  /** All workflows, including archived ones, oldest first. */
  all(): Promise<Workflow[]> {
    return allPages((query) => this.#take(this.#http.GET('/v1/workflows', { params: { query } })));
  }
  get(id: string): Promise<Workflow> {
    return this.#take(this.#http.GET('/v1/workflows/{id}', at({ id })));
  }
  create(body: NewWorkflow): Promise<Workflow> {
    return this.#take(this.#http.POST('/v1/workflows', { body }));
  }
  /**
   * Fails with `Conflict` if the workflow no longer has `version`; null applies the change to any version.
   */
  patch(id: string, version: number | null, body: WorkflowPatch): Promise<Workflow> {
    const params = { path: { id }, header: version === null ? {} : ifMatch(version) };
    return this.#take(this.#http.PATCH('/v1/workflows/{id}', { params, body }));
  }
  archive(id: string): Promise<Workflow> {
    return this.#take(this.#http.DELETE('/v1/workflows/{id}', at({ id })));
  }
  /** Newest first. */
  versions(id: string, cursor?: string): Promise<List<WorkflowVersion>> {
    const params = { path: { id }, query: { limit: 30, cursor } };
    return this.#take(this.#http.GET('/v1/workflows/{id}/versions', { params }));
  }
  /** Fails with `Conflict` if the workflow no longer has `version`. */
  rollback(id: string, version: number, target_version: number): Promise<Workflow> {
    const params = { path: { id }, header: ifMatch(version) };
    return this.#take(this.#http.POST('/v1/workflows/{id}/rollback', { params, body: { target_version } }));
  }
  async recipes(): Promise<WorkflowRecipe[]> {
    return (await this.#take(this.#http.GET('/v1/workflow-recipes'))).data;
  }
  /** Starts a run. Calls with the same `client_id` start only one run. */
  async run(id: string, body: NewRun): Promise<WorkflowRun> {
    return (await this.#take(this.#http.POST('/v1/workflows/{id}/runs', { ...at({ id }), body }))).run;
  }
  /** The newest runs that the user can see, newest first. */
  async newestRuns(): Promise<WorkflowRun[]> {
    const params = { query: { limit: RUNS_MAX } };
    return (await this.#take(this.#http.GET('/v1/runs', { params }))).data;
  }
}
