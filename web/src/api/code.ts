/**
 * Repositories, runners, and changes. The types are those of the specification, until the ones of the server are generated.
 */
import type { Action } from './actions';
import { at, ifMatch, type Answer, type Transport } from './http';
import type { List, Message, Task } from './types';

/** An agent that a runner can start; `to` is the host through which it can reach the web. */
export interface Engine {
  name: string;
  to: string | null;
}
export interface Runner {
  id: string;
  name: string;
  online: boolean;
  /** `none` if the runner's machine is the sandbox; null until it has connected. */
  sandbox: string | null;
  engines: Engine[];
}
export type RepositoryState = 'offered' | 'allowed' | 'gone';
/** People who can start work: all members except guests, admins, or these users. */
export type Starters = 'members' | 'admins' | string[];
export interface Repository {
  id: string;
  name: string;
  runner: Pick<Runner, 'id' | 'name' | 'online'>;
  state: RepositoryState;
  base: string;
  /** Null for `builtin`, or else the first one. */
  engine: string | null;
  engines: Engine[];
  channel_ids: string[];
  starters: Starters;
  can_push: boolean;
  version: number;
}
export type RepositoryPatch = Partial<Pick<Repository, 'state' | 'channel_ids' | 'starters' | 'engine'>>;

export interface ChangedFile {
  path: string;
  old_path: string | null;
  status: 'added' | 'modified' | 'deleted' | 'renamed';
  additions: number;
  deletions: number;
  binary: boolean;
}
export interface Check {
  state: 'passed' | 'failed' | 'none';
  ms: number;
}
export interface PushedCommit {
  commit: string;
  url: string | null;
  by: string | null;
  at: string;
  /** Tree of the commit, if the server still has its patch. */
  tree?: string | null;
}
export interface CodeSession {
  id: string;
  number: number;
  repository_id: string;
  agent_id: string;
  thread_id: string;
  fork_id: string | null;
  engine: string;
  base_commit: string | null;
  state: 'preparing' | 'working' | 'ready' | 'closed' | 'lost';
  tree: string | null;
  /** At most 300. */
  files: ChangedFile[];
  file_count: number;
  additions: number;
  deletions: number;
  check: Check | null;
  /** Texts of the next commit; null if there is nothing to push. */
  title: string | null;
  body: string | null;
  branch: string;
  pushed: PushedCommit | null;
  notes: string[];
  /** The reply of the turn that changed the files last. */
  reply_id: string | null;
  /** The newest push. */
  action_id: string | null;
  version: number;
}
export interface Step {
  /** Number in the turn; a later step with this number replaces it. */
  n: number;
  title: string;
  kind: string;
  state: 'running' | 'done' | 'failed';
  ms: number;
}
export interface PlanEntry {
  content: string;
  status: string;
}
/** Steps that have changed, and the plan if it has. */
export interface CodeStepFrame {
  type: 'code.step';
  task_id: string;
  steps: Step[];
  plan?: PlanEntry[] | null;
}
/** A line of a turn's log. */
export type LogLine =
  | ({ kind: 'step'; step: number; tool?: string } & Pick<Step, 'title' | 'state' | 'ms'>)
  | { kind: 'content'; step: number; text: string };
/** Events contain no texts, so the object is read again. */
export type CodeEvent =
  | { type: 'code_session.updated'; thread_id: string | null; data: { code_session_id: string } }
  | { type: 'repository.updated'; data: { repository_id: string; version: number | null } };
export interface ReviewComment {
  path: string;
  side: 'old' | 'new';
  line: number;
  text: string;
}
export interface Review {
  session_id: string;
  tree: string;
  comments: ReviewComment[];
}
/** Maximum number of comments in a message. */
export const COMMENTS_MAX = 50;

/** Routes that are not in the generated types. */
interface Http {
  GET<T>(path: string, options?: object): Promise<Answer<T>>;
  POST<T>(path: string, options?: object): Promise<Answer<T>>;
  PATCH<T>(path: string, options?: object): Promise<Answer<T>>;
  DELETE<T>(path: string, options?: object): Promise<Answer<T>>;
}

/** API client for code, `api.part(CodeApi)`. Loaded after startup. */
export class CodeApi {
  #http: Http;
  #take: Transport['take'];
  #untimed: Transport['untimed'];
  constructor(transport: Transport) {
    this.#http = transport.http as unknown as Http;
    this.#take = transport.take;
    this.#untimed = transport.untimed;
  }

  async runners(): Promise<Runner[]> {
    return (await this.#take(this.#http.GET<List<Runner>>('/v1/runners'))).data;
  }
  /** The key is returned once. */
  addRunner(name: string): Promise<Runner & { key: string }> {
    return this.#take(this.#http.POST<Runner & { key: string }>('/v1/runners', { body: { name } }));
  }
  async removeRunner(id: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/runners/{id}', at({ id })));
  }
  /** For members, those of their channels. */
  async repositories(): Promise<Repository[]> {
    return (await this.#take(this.#http.GET<List<Repository>>('/v1/repositories'))).data;
  }
  /** Fails with `Conflict` if the version has changed. */
  patchRepository(id: string, version: number, body: RepositoryPatch): Promise<Repository> {
    const params = { path: { id }, header: ifMatch(version) };
    return this.#take(this.#http.PATCH<Repository>('/v1/repositories/{id}', { params, body }));
  }

  async sessions(thread_id: string): Promise<CodeSession[]> {
    const params = { query: { thread_id } };
    return (await this.#take(this.#http.GET<List<CodeSession>>('/v1/code-sessions', { params }))).data;
  }
  session(id: string): Promise<CodeSession> {
    return this.#take(this.#http.GET<CodeSession>('/v1/code-sessions/{id}', at({ id })));
  }
  /** All changes as text, or those of an earlier tree that was pushed. */
  patch(id: string, tree?: string): Promise<string> {
    const params = { path: { id }, query: tree === undefined ? {} : { tree } };
    const options = { params, parseAs: 'text', fetch: this.#untimed };
    return this.#take(this.#http.GET<string>('/v1/code-sessions/{id}/patch', options));
  }
  /** Log of a turn: a JSON object on each line. */
  log(id: string, task_id: string): Promise<string> {
    const params = { path: { id }, query: { task_id } };
    const options = { params, parseAs: 'text', fetch: this.#untimed };
    return this.#take(this.#http.GET<string>('/v1/code-sessions/{id}/log', options));
  }
  /** Changes the texts of the commit. Fails with `Conflict` if the version has changed. */
  editTexts(id: string, version: number, body: Pick<CodeSession, 'title' | 'body'>): Promise<CodeSession> {
    const params = { path: { id }, header: ifMatch(version) };
    return this.#take(this.#http.PATCH<CodeSession>('/v1/code-sessions/{id}', { params, body }));
  }
  /** Answers a question with the ID of an option, or with the object of a form. */
  answer(action: string, value: unknown): Promise<Action> {
    const options = { ...at({ id: action }), body: { value } };
    return this.#take(this.#http.POST<Action>('/v1/actions/{id}/answer', options));
  }
  /** Posts a message with comments on lines. It is posted once for each `client_id`. */
  postReview(
    place: { thread_id: string; fork_id: string | null },
    body: { client_id: string; content: string; review: Review },
  ): Promise<{ message: Message; tasks: Task[] }> {
    const path = place.fork_id ? '/v1/forks/{id}/messages' : '/v1/threads/{id}/messages';
    const options = { ...at({ id: place.fork_id ?? place.thread_id }), body };
    return this.#take(this.#http.POST<{ message: Message; tasks: Task[] }>(path, options));
  }
}
