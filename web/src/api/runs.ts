import { at, type Transport } from './http';
import { allPages } from './pages';
import type { components, paths } from './schema';
import type { List } from './types';

type S = components['schemas'];

/** A list of steps that people, messages, and schedules start. */
export type Workflow = S['Workflow'];
export type WorkflowStep = Workflow['steps'][number];
/** One execution of a workflow. Events omit its input and outputs. */
export type Run = S['WorkflowRun'];
export type RunStep = S['RunStep'];
export type RunStatus = S['RunStatus'];
export type StepState = S['StepState'];
/** A run that was started, and its root task. */
export type StartedRun = S['StartedRun'];
export type NewRun = S['RunForm'];
export type RunsQuery = NonNullable<paths['/v1/runs']['get']['parameters']['query']>;

/** The current workflow, and the steps and agent of the version that a run uses. */
export interface Definition {
  workflow: Workflow;
  steps: WorkflowStep[];
  default_agent_id: string;
}

/** Maximum page size. */
const VERSIONS_MAX = 100;

/** API client for runs, `api.part(RunsApi)`. Loaded on demand. */
export class RunsApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  /** All workflows, oldest first. */
  workflows(): Promise<Workflow[]> {
    return allPages((query) => this.#take(this.#http.GET('/v1/workflows', { params: { query } })));
  }
  /** The workflow with this name that is not archived. */
  async named(name: string): Promise<Workflow | undefined> {
    const page = await this.#take(this.#http.GET('/v1/workflows', { params: { query: { name } } }));
    return page.data.find((w) => w.status !== 'archived');
  }
  async definition({ workflow_id: id, workflow_version }: Run): Promise<Definition> {
    const workflow = await this.#take(this.#http.GET('/v1/workflows/{id}', at({ id })));
    const { steps, default_agent_id } = await this.#content(workflow, workflow_version);
    return { workflow, steps, default_agent_id };
  }
  async #content(now: Workflow, version: number): Promise<Omit<Definition, 'workflow'>> {
    if (now.version === version) return now;
    const params = { path: { id: now.id }, query: { limit: VERSIONS_MAX } };
    const versions = await this.#take(this.#http.GET('/v1/workflows/{id}/versions', { params }));
    return versions.data.find((v) => v.version === version)?.snapshot ?? now;
  }

  /** Newest first. */
  list(query: RunsQuery): Promise<List<Run>> {
    return this.#take(this.#http.GET('/v1/runs', { params: { query } }));
  }
  get(id: string): Promise<Run> {
    return this.#take(this.#http.GET('/v1/runs/{id}', at({ id })));
  }
  start(workflow: string, body: NewRun): Promise<StartedRun> {
    return this.#take(this.#http.POST('/v1/workflows/{id}/runs', { ...at({ id: workflow }), body }));
  }
  /** Repeats the failed step and continues with the steps after it. */
  resume(id: string): Promise<Run> {
    return this.#take(this.#http.POST('/v1/runs/{id}/resume', at({ id })));
  }
}
