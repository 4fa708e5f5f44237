import type { Client } from 'openapi-fetch';
import { httpClient } from './http';
import { ApiError, Conflict, Unreachable } from './problem';
import type { paths } from './schema';
import type {
  Account,
  ActionItem,
  ActionItemPatch,
  AgentProfile,
  Channel,
  Follow,
  Fork,
  ForkPatch,
  InvitePreview,
  List,
  Member,
  Message,
  NewFork,
  OpenedThread,
  Resolution,
  ResolutionEdit,
  Setup,
  Snapshot,
  Task,
  TaskContext,
  Thread,
  ThreadPatch,
  Workspace,
} from './types';

export type Posted = { message: Message; tasks: Task[] };
export type Started = Posted & { thread: Thread };
export type Published = { fork: Fork; message: Message; resolution: Resolution };
export type MessagePage = { before?: string; after?: string; around?: string };
/** `attachments`: file IDs. */
interface NewMessage {
  content: string;
  client_id: string;
  attachments?: string[];
}
/** A resolution, and the version to send when it is changed. */
export interface Tagged {
  resolution: Resolution;
  etag: number;
}
/** Transport of parts of the client that are loaded later. */
export interface Transport {
  call<T>(
    method: string,
    path: string,
    init: {
      query?: object;
      body?: object;
      headers?: Record<string, string>;
      /** Returns the body as a stream. */
      parseAs?: 'stream';
      /** Exempt from the default timeout. */
      slow?: boolean;
    },
  ): Promise<T>;
  /** The streamed body of a response, without a time limit. */
  stream(path: string, body: object, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
}
interface Answer {
  data?: unknown;
  error?: unknown;
  response: Response;
}
export interface ApiDeps {
  fetch?: (request: Request) => Promise<Response>;
  /** Base URL of the server; empty in a browser. */
  base?: string;
}

/** Request timeout: a later response counts as none. */
const TIMEOUT_MS = 30_000;
const at = <P extends object>(path: P) => ({ params: { path } });

/** Every request goes through here; no other code in the client calls `fetch`. */
export class Api {
  #deps: ApiDeps;
  #http: Client<paths>;
  #send: (request: Request) => Promise<Response>;

  constructor(deps: ApiDeps = {}, workspace: string | null = null) {
    this.#deps = deps;
    const send = deps.fetch ?? ((r: Request) => fetch(r));
    this.#send = send;
    this.#http = httpClient(deps.base ?? '', workspace ? { 'X-Workspace-Id': workspace } : {}, (r) =>
      send(new Request(r, { signal: AbortSignal.timeout(TIMEOUT_MS) })),
    );
  }

  /** The same client bound to a workspace. */
  in(workspace: string): Api {
    return new Api(this.#deps, workspace);
  }

  /** Part of the client that is loaded on demand (such as api/agents.ts), to keep it out of the startup bundle. */
  part<P>(Part: new (transport: Transport) => P): P {
    const request = (method: string, path: string, init: object): Promise<Answer> =>
      this.#http.request(method as 'get', path as '/v1/agents', init as Record<string, unknown>);
    return new Part({
      call: (method, path, { query, slow, ...init }) =>
        this.#take(
          request(method, path, { ...init, params: { query }, ...(slow ? { fetch: this.#send } : {}) }),
        ),
      stream: (path, body, signal) =>
        this.#take(request('POST', path, { body, signal, parseAs: 'stream', fetch: this.#send })),
    });
  }

  /** The only place that casts a response from its generated type to the narrowed type of types.ts. */
  async #take<T>(call: Promise<Answer>): Promise<T> {
    let answer: Answer;
    try {
      answer = await call;
    } catch (e) {
      if (e instanceof DOMException && e.name === 'AbortError') throw e;
      throw new Unreachable(e instanceof DOMException && e.name === 'TimeoutError');
    }
    const { data, error, response } = answer;
    if (!response.ok) {
      const wait = Number(response.headers.get('retry-after'));
      throw new ApiError(
        response.status,
        error,
        `The server responded with status ${response.status}.`,
        wait || null,
      );
    }
    return data as T;
  }

  // accounts
  setup(): Promise<Setup> {
    return this.#take(this.#http.GET('/v1/auth/setup'));
  }
  me(): Promise<Account> {
    return this.#take(this.#http.GET('/v1/auth/me'));
  }
  rename(name: string): Promise<Account> {
    return this.#take(this.#http.PATCH('/v1/auth/me', { body: { name } }));
  }
  signUp(body: {
    email: string;
    password: string;
    name: string;
    invite?: string;
    setup_token?: string;
  }): Promise<Account> {
    return this.#take(this.#http.POST('/v1/auth/signup', { body }));
  }
  signIn(email: string, password: string): Promise<Account> {
    return this.#take(this.#http.POST('/v1/auth/login', { body: { email, password } }));
  }
  signOut(): Promise<void> {
    return this.#take(this.#http.POST('/v1/auth/logout'));
  }

  // workspaces and people
  createWorkspace(name: string): Promise<Workspace> {
    return this.#take(this.#http.POST('/v1/workspaces', { body: { name } }));
  }
  snapshot(): Promise<Snapshot> {
    return this.#take(this.#http.GET('/v1/snapshot'));
  }
  members(after?: string): Promise<List<Member>> {
    return this.#take(this.#http.GET('/v1/members', { params: { query: { limit: 100, after } } }));
  }
  previewInvite(token: string): Promise<InvitePreview> {
    return this.#take(this.#http.GET('/v1/invites/{id}', at({ id: token })));
  }
  acceptInvite(token: string): Promise<{ workspace: Workspace; member: Member }> {
    return this.#take(this.#http.POST('/v1/invites/{id}/accept', at({ id: token })));
  }

  // channels
  channel(id: string): Promise<Channel> {
    return this.#take(this.#http.GET('/v1/channels/{id}', at({ id })));
  }
  createChannel(body: { name: string; topic?: string; private?: boolean }): Promise<Channel> {
    return this.#take(this.#http.POST('/v1/channels', { body }));
  }
  openDirect(body: { member_ids?: string[]; agent_id?: string }): Promise<Channel> {
    return this.#take(this.#http.POST('/v1/direct', { body }));
  }
  updateChannel(id: string, body: { name?: string; topic?: string }): Promise<Channel> {
    return this.#take(this.#http.PATCH('/v1/channels/{id}', { ...at({ id }), body }));
  }
  joinChannel(id: string): Promise<Channel> {
    return this.#take(this.#http.POST('/v1/channels/{id}/join', at({ id })));
  }
  leaveChannel(id: string): Promise<Channel> {
    return this.#take(this.#http.POST('/v1/channels/{id}/leave', at({ id })));
  }
  archiveChannel(id: string): Promise<Channel> {
    return this.#take(this.#http.POST('/v1/channels/{id}/archive', at({ id })));
  }
  unarchiveChannel(id: string): Promise<Channel> {
    return this.#take(this.#http.POST('/v1/channels/{id}/unarchive', at({ id })));
  }
  markChannelRead(id: string): Promise<Channel> {
    return this.#take(this.#http.POST('/v1/channels/{id}/read', at({ id })));
  }
  channelMembers(id: string, after?: string): Promise<List<Member>> {
    const params = { path: { id }, query: { limit: 100, after } };
    return this.#take(this.#http.GET('/v1/channels/{id}/members', { params }));
  }
  addToChannel(id: string, user_id: string): Promise<Member> {
    return this.#take(this.#http.POST('/v1/channels/{id}/members', { ...at({ id }), body: { user_id } }));
  }
  removeFromChannel(id: string, user_id: string): Promise<void> {
    return this.#take(this.#http.DELETE('/v1/channels/{id}/members/{user_id}', at({ id, user_id })));
  }

  // threads and messages
  threads(id: string, cursor?: string): Promise<List<Thread>> {
    const params = { path: { id }, query: { limit: 30, cursor } };
    return this.#take(this.#http.GET('/v1/channels/{id}/threads', { params }));
  }
  startThread(
    id: string,
    body: NewMessage & { agent_id?: string | null; from_thread_id?: string },
  ): Promise<Started> {
    return this.#take(this.#http.POST('/v1/channels/{id}/threads', { ...at({ id }), body }));
  }
  thread(id: string): Promise<OpenedThread> {
    return this.#take(this.#http.GET('/v1/threads/{id}', at({ id })));
  }
  patchThread(id: string, body: ThreadPatch): Promise<Thread> {
    return this.#take(this.#http.PATCH('/v1/threads/{id}', { ...at({ id }), body }));
  }
  /** `all` follows the thread, `none` mutes it, null restores the default (mentions only). */
  follow(id: string, level: 'all' | 'none' | null): Promise<Follow> {
    const path = at({ id });
    if (!level) return this.#take(this.#http.DELETE('/v1/threads/{id}/follow', path));
    return this.#take(this.#http.PUT('/v1/threads/{id}/follow', { ...path, body: { level } }));
  }
  markRead(id: string, seq: number): Promise<{ unread_count: number; mention_count: number }> {
    return this.#take(this.#http.PUT('/v1/threads/{id}/read', { ...at({ id }), body: { seq } }));
  }
  messages(id: string, page: MessagePage = {}): Promise<List<Message>> {
    const params = { path: { id }, query: { limit: 50, ...page } };
    return this.#take(this.#http.GET('/v1/threads/{id}/messages', { params }));
  }
  reply(id: string, body: NewMessage): Promise<Posted> {
    return this.#take(this.#http.POST('/v1/threads/{id}/messages', { ...at({ id }), body }));
  }
  message(id: string): Promise<Message> {
    return this.#take(this.#http.GET('/v1/messages/{id}', at({ id })));
  }
  editMessage(id: string, content: string): Promise<Message> {
    return this.#take(this.#http.PATCH('/v1/messages/{id}', { ...at({ id }), body: { content } }));
  }
  deleteMessage(id: string): Promise<Message> {
    return this.#take(this.#http.DELETE('/v1/messages/{id}', at({ id })));
  }
  react(id: string, emoji: string, on: boolean): Promise<Message> {
    const path = at({ id, emoji });
    const to = '/v1/messages/{id}/reactions/{emoji}';
    return this.#take(on ? this.#http.PUT(to, path) : this.#http.DELETE(to, path));
  }

  // deep dives
  forks(thread: string, page: { after?: string; before?: string } = {}): Promise<List<Fork>> {
    const params = { path: { id: thread }, query: { limit: 50, ...page } };
    return this.#take(this.#http.GET('/v1/threads/{id}/forks', { params }));
  }
  createFork(thread: string, body: NewFork): Promise<{ fork: Fork }> {
    return this.#take(this.#http.POST('/v1/threads/{id}/forks', { ...at({ id: thread }), body }));
  }
  fork(id: string): Promise<Fork> {
    return this.#take(this.#http.GET('/v1/forks/{id}', at({ id })));
  }
  patchFork(id: string, body: ForkPatch): Promise<Fork> {
    return this.#take(this.#http.PATCH('/v1/forks/{id}', { ...at({ id }), body }));
  }
  forkMessages(id: string, page: MessagePage = {}): Promise<List<Message>> {
    const params = { path: { id }, query: { limit: 50, ...page } };
    return this.#take(this.#http.GET('/v1/forks/{id}/messages', { params }));
  }
  postToFork(id: string, body: NewMessage): Promise<Posted> {
    return this.#take(this.#http.POST('/v1/forks/{id}/messages', { ...at({ id }), body }));
  }
  abandon(id: string): Promise<{ fork: Fork }> {
    return this.#take(this.#http.POST('/v1/forks/{id}/abandon', at({ id })));
  }
  reopen(id: string): Promise<{ fork: Fork }> {
    return this.#take(this.#http.POST('/v1/forks/{id}/reopen', at({ id })));
  }

  // resolutions and action items
  resolve(
    id: string,
    body: { publish?: boolean; guidance?: string; replace_draft?: boolean } = {},
  ): Promise<{ fork: Fork; task: Task }> {
    return this.#take(this.#http.POST('/v1/forks/{id}/resolve', { ...at({ id }), body }));
  }
  resolution(id: string): Promise<Tagged> {
    return this.#tagged(this.#http.GET('/v1/forks/{id}/resolution', at({ id })));
  }
  /** Fails with `Conflict<Resolution>` if the draft no longer matches `etag`; 0 creates one by hand. */
  patchResolution(id: string, etag: number, body: ResolutionEdit): Promise<Tagged> {
    const params = { path: { id }, header: { 'If-Match': `"${etag}"` } };
    return this.#tagged(this.#http.PATCH('/v1/forks/{id}/resolution', { params, body }));
  }
  /** Applies `edit` to the draft with `etag`; fails with `Conflict<Resolution>` as above. */
  publish(id: string, edit: ResolutionEdit | null = null, etag: number | null = null): Promise<Published> {
    const params = { path: { id }, header: etag === null ? {} : { 'If-Match': `"${etag}"` } };
    const body = edit ? { resolution: edit } : {};
    return this.#clash(this.#take<Published>(this.#http.POST('/v1/forks/{id}/publish', { params, body })));
  }
  /** All published versions, oldest first. */
  resolutions(id: string, page: { after?: string; before?: string } = {}): Promise<List<Resolution>> {
    const params = { path: { id }, query: { limit: 50, ...page } };
    return this.#take(this.#http.GET('/v1/forks/{id}/resolutions', { params }));
  }
  decisions(of: { q?: string; channel_id?: string; cursor?: string } = {}): Promise<List<Resolution>> {
    return this.#take(this.#http.GET('/v1/decisions', { params: { query: { limit: 30, ...of } } }));
  }
  /** Oldest first. */
  actionItems(
    of: { owner?: string; done?: boolean; channel_id?: string; after?: string; before?: string } = {},
  ): Promise<List<ActionItem>> {
    const query = { limit: 100, ...of };
    return this.#take(this.#http.GET('/v1/action-items', { params: { query } }));
  }
  patchActionItem(id: string, body: ActionItemPatch): Promise<ActionItem> {
    return this.#take(this.#http.PATCH('/v1/action-items/{id}', { ...at({ id }), body }));
  }
  async #tagged(call: Promise<Answer>): Promise<Tagged> {
    const resolution = await this.#clash(this.#take<Resolution>(call));
    const { response } = await call;
    const etag = Number(/\d+/.exec(response.headers.get('etag') ?? '')?.[0]);
    return { resolution, etag: Number.isNaN(etag) ? resolution.revision : etag };
  }
  /** Converts a 409 that carries the current object into a `Conflict`. */
  async #clash<T>(taken: Promise<T>): Promise<T> {
    try {
      return await taken;
    } catch (e) {
      const error = e instanceof ApiError && e.status === 409 ? e : null;
      const current = (error?.body as { error?: { current?: Resolution } } | null)?.error?.current;
      throw error && current ? new Conflict(error, current) : e;
    }
  }

  // agents and their tasks
  agent(id: string): Promise<AgentProfile> {
    return this.#take(this.#http.GET('/v1/agents/{id}', at({ id })));
  }
  async tasks(of: {
    thread_id?: string;
    agent_id?: string;
    order?: 'newest';
    cursor?: string;
    limit?: number;
  }): Promise<List<Task>> {
    const params = { query: { limit: 100, ...of } };
    const list: List<Task> = await this.#take(this.#http.GET('/v1/tasks', { params }));
    return { ...list, data: list.data.filter((t) => t.kind !== 'response') };
  }
  task(id: string): Promise<Task> {
    return this.#take(this.#http.GET('/v1/tasks/{id}', at({ id })));
  }
  taskContext(id: string): Promise<TaskContext> {
    return this.#take(this.#http.GET('/v1/tasks/{id}/context', at({ id })));
  }
  stopTask(id: string): Promise<Task> {
    return this.#take(this.#http.POST('/v1/tasks/{id}/cancel', at({ id })));
  }
  retryTask(id: string): Promise<Task> {
    return this.#take(this.#http.POST('/v1/tasks/{id}/retry', at({ id })));
  }
}
