/** Repositories, runners, and changes. */
import type { Action } from './actions';
import { at, ifMatch, type Transport } from './http';
import type { components } from './schema';
import type { Message, Task } from './types';

type S = components['schemas'];

export type Engine = S['RunnerEngine'];
export type Runner = S['Runner'];
export type RepositoryState = S['RepositoryState'];
export type Starters = S['Starters'];
export type Repository = S['Repository'];
export type RepositoryPatch = S['RepositoryPatch'];
export type ChangedFile = S['CodeFile'];
export type Check = S['CodeCheck'];
export type PushedCommit = S['PushedCommit'];
export type CodeSession = S['CodeSession'];
/** A later step of a turn with the same number replaces this one. */
export type Step = S['CodeStep'];
export type PlanEntry = S['CodePlanEntry'];
export type ReviewComment = S['ReviewComment'];
export type Review = S['ReviewForm'];
/** A line of a turn's log. */
export type LogLine =
  | ({ kind: 'step'; step: number; tool?: string } & Pick<Step, 'title' | 'state' | 'ms'>)
  | { kind: 'content'; step: number; text: string };
/** Maximum number of comments in a message. */
export const COMMENTS_MAX = 50;

/** API client for code, `api.part(CodeApi)`. Loaded after startup. */
export class CodeApi {
  #http: Transport['http'];
  #take: Transport['take'];
  #untimed: Transport['untimed'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
    this.#untimed = transport.untimed;
  }

  async runners(): Promise<Runner[]> {
    return (await this.#take(this.#http.GET('/v1/runners'))).data;
  }
  /** The key is returned once. */
  addRunner(name: string): Promise<S['RunnerWithKey']> {
    return this.#take(this.#http.POST('/v1/runners', { body: { name } }));
  }
  async removeRunner(id: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/runners/{id}', at({ id })));
  }
  /** For members, those of their channels. */
  async repositories(): Promise<Repository[]> {
    return (await this.#take(this.#http.GET('/v1/repositories'))).data;
  }
  /** Fails with `Conflict` if the version has changed. */
  patchRepository(id: string, version: number, body: RepositoryPatch): Promise<Repository> {
    const params = { path: { id }, header: ifMatch(version) };
    return this.#take(this.#http.PATCH('/v1/repositories/{id}', { params, body }));
  }

  async sessions(thread_id: string): Promise<CodeSession[]> {
    const params = { query: { thread_id } };
    return (await this.#take(this.#http.GET('/v1/code-sessions', { params }))).data;
  }
  session(id: string): Promise<CodeSession> {
    return this.#take(this.#http.GET('/v1/code-sessions/{id}', at({ id })));
  }
  /** All changes as text, or those of an earlier tree that was pushed. */
  patch(id: string, tree?: string): Promise<string> {
    const params = { path: { id }, query: tree === undefined ? {} : { tree } };
    const options = { params, parseAs: 'text' as const, fetch: this.#untimed };
    return this.#take(this.#http.GET('/v1/code-sessions/{id}/patch', options));
  }
  /** Log of a turn: a JSON object on each line. */
  log(id: string, task_id: string): Promise<string> {
    const params = { path: { id }, query: { task_id } };
    const options = { params, parseAs: 'text' as const, fetch: this.#untimed };
    return this.#take(this.#http.GET('/v1/code-sessions/{id}/log', options));
  }
  /** Changes the texts of the commit. Fails with `Conflict` if the version has changed. */
  editTexts(id: string, version: number, body: S['SessionPatch']): Promise<CodeSession> {
    const params = { path: { id }, header: ifMatch(version) };
    return this.#take(this.#http.PATCH('/v1/code-sessions/{id}', { params, body }));
  }
  /** Answers a question with the ID of an option, or with the object of a form. */
  answer(action: string, value: unknown): Promise<Action> {
    const options = { ...at({ id: action }), body: { value } };
    return this.#take(this.#http.POST('/v1/actions/{id}/answer', options));
  }
  /** Posts a message with comments on lines. It is posted once for each `client_id`. */
  postReview(
    place: { thread_id: string; fork_id: string | null },
    body: { client_id: string; content: string; review: Review },
  ): Promise<{ message: Message; tasks: Task[] }> {
    const { thread_id, fork_id } = place;
    return this.#take(
      fork_id
        ? this.#http.POST('/v1/forks/{id}/messages', { ...at({ id: fork_id }), body })
        : this.#http.POST('/v1/threads/{id}/messages', { ...at({ id: thread_id }), body }),
    );
  }
}
