import { ApiError, Unreachable } from './problem';
import type {
  Account,
  Agent,
  AgentProfile,
  Channel,
  Invite,
  InvitePreview,
  List,
  Member,
  Message,
  Role,
  Setup,
  SignInSession,
  Snapshot,
  Task,
  TaskContext,
  Thread,
  Workspace,
} from './types';

type Query = Record<string, string | number | boolean | undefined>;
interface Call {
  query?: Query;
  body?: object;
  ifMatch?: number;
}
export type Posted = { message: Message; tasks: Task[] };
export type Started = Posted & { thread: Thread };

/** An answer later than this counts as none (UI.md §4: "no answer in 30 s"). */
const TIMEOUT_MS = 30_000;
const id = encodeURIComponent;

/** Every request to the server goes through here; nothing else in the client calls `fetch`. */
export class Api {
  #fetch: typeof fetch;
  #workspace: string | null;

  constructor(fetcher: typeof fetch = (...a) => fetch(...a), workspace: string | null = null) {
    this.#fetch = fetcher;
    this.#workspace = workspace;
  }

  /** The same client, acting in one workspace. */
  in(workspace: string): Api {
    return new Api(this.#fetch, workspace);
  }

  async #call<T>(method: string, path: string, { query, body, ifMatch }: Call = {}): Promise<T> {
    const params = new URLSearchParams();
    for (const [k, v] of Object.entries(query ?? {})) if (v !== undefined) params.set(k, String(v));
    const headers = new Headers();
    if (body) headers.set('content-type', 'application/json');
    if (this.#workspace) headers.set('x-workspace-id', this.#workspace);
    if (ifMatch !== undefined) headers.set('if-match', `"${ifMatch}"`);
    const url = params.size ? `${path}?${params.toString()}` : path;
    let answer: Response;
    let text: string;
    try {
      answer = await this.#fetch(url, {
        method,
        headers,
        credentials: 'same-origin',
        cache: 'no-store',
        body: body ? JSON.stringify(body) : undefined,
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      text = await answer.text();
    } catch (e) {
      throw new Unreachable(e instanceof DOMException && e.name === 'TimeoutError');
    }
    const json: unknown = parse(text);
    if (!answer.ok) {
      const wait = Number(answer.headers.get('retry-after'));
      throw new ApiError(answer.status, json, `The server answered ${answer.status}.`, wait || null);
    }
    return json as T; // the contract test holds these types to the server's document
  }

  // accounts
  setup = () => this.#call<Setup>('GET', '/v1/auth/setup');
  me = () => this.#call<Account>('GET', '/v1/auth/me');
  rename = (name: string) => this.#call<Account>('PATCH', '/v1/auth/me', { body: { name } });
  signUp = (body: { email: string; password: string; name: string; invite?: string; setup_token?: string }) =>
    this.#call<Account>('POST', '/v1/auth/signup', { body });
  signIn = (email: string, password: string) =>
    this.#call<Account>('POST', '/v1/auth/login', { body: { email, password } });
  signOut = () => this.#call<void>('POST', '/v1/auth/logout', { body: {} });
  changePassword = (current_password: string, new_password: string) =>
    this.#call<void>('POST', '/v1/auth/password', { body: { current_password, new_password } });
  sessions = () => this.#call<List<SignInSession>>('GET', '/v1/auth/sessions', { query: { limit: 100 } });
  endSession = (session: string) => this.#call<void>('DELETE', `/v1/auth/sessions/${id(session)}`);

  // workspaces and people
  createWorkspace = (name: string) => this.#call<Workspace>('POST', '/v1/workspaces', { body: { name } });
  renameWorkspace = (workspace: string, name: string) =>
    this.#call<Workspace>('PATCH', `/v1/workspaces/${id(workspace)}`, { body: { name } });
  snapshot = () => this.#call<Snapshot>('GET', '/v1/snapshot');
  members = (after?: string) =>
    this.#call<List<Member>>('GET', '/v1/members', { query: { limit: 100, after } });
  updateMember = (user: string, body: { role?: Role; handle?: string }) =>
    this.#call<Member>('PATCH', `/v1/members/${id(user)}`, { body });
  removeMember = (user: string) => this.#call<void>('DELETE', `/v1/members/${id(user)}`);
  createInvite = (body: { email?: string; role?: Role; max_uses?: number; expires_in_s?: number }) =>
    this.#call<Invite>('POST', '/v1/invites', { body });
  invites = () => this.#call<List<Invite>>('GET', '/v1/invites', { query: { limit: 100 } });
  revokeInvite = (invite: string) => this.#call<void>('DELETE', `/v1/invites/${id(invite)}`);
  previewInvite = (token: string) => this.#call<InvitePreview>('GET', `/v1/invites/${id(token)}`);
  acceptInvite = (token: string) =>
    this.#call<{ workspace: Workspace; member: Member }>('POST', `/v1/invites/${id(token)}/accept`, {
      body: {},
    });

  // channels
  channel = (channel: string) => this.#call<Channel>('GET', `/v1/channels/${id(channel)}`);
  createChannel = (body: { name: string; topic?: string; private?: boolean }) =>
    this.#call<Channel>('POST', '/v1/channels', { body });
  openDirect = (body: { member_ids?: string[]; agent_id?: string }) =>
    this.#call<Channel>('POST', '/v1/direct', { body });
  updateChannel = (channel: string, body: { name?: string; topic?: string }) =>
    this.#call<Channel>('PATCH', `/v1/channels/${id(channel)}`, { body });
  channelAction = (channel: string, action: 'join' | 'leave' | 'archive' | 'unarchive' | 'read') =>
    this.#call<Channel>('POST', `/v1/channels/${id(channel)}/${action}`, { body: {} });
  channelMembers = (channel: string, after?: string) =>
    this.#call<List<Member>>('GET', `/v1/channels/${id(channel)}/members`, { query: { limit: 100, after } });
  addToChannel = (channel: string, user_id: string) =>
    this.#call<unknown>('POST', `/v1/channels/${id(channel)}/members`, { body: { user_id } });
  removeFromChannel = (channel: string, user: string) =>
    this.#call<void>('DELETE', `/v1/channels/${id(channel)}/members/${id(user)}`);

  // threads and messages
  threads = (channel: string, cursor?: string, limit = 30) =>
    this.#call<List<Thread>>('GET', `/v1/channels/${id(channel)}/threads`, { query: { limit, cursor } });
  startThread = (channel: string, body: { content: string; client_id: string }) =>
    this.#call<Started>('POST', `/v1/channels/${id(channel)}/threads`, { body });
  thread = (thread: string) => this.#call<Thread>('GET', `/v1/threads/${id(thread)}`);
  markRead = (thread: string, seq: number) =>
    this.#call<{ thread_id: string; seq: number; unread_count: number; mention_count: number }>(
      'PUT',
      `/v1/threads/${id(thread)}/read`,
      { body: { seq } },
    );
  messages = (thread: string, at: { before?: string; after?: string; around?: string } = {}) =>
    this.#call<List<Message>>('GET', `/v1/threads/${id(thread)}/messages`, { query: { limit: 50, ...at } });
  reply = (thread: string, body: { content: string; client_id: string }) =>
    this.#call<Posted>('POST', `/v1/threads/${id(thread)}/messages`, { body });
  message = (message: string) => this.#call<Message>('GET', `/v1/messages/${id(message)}`);
  editMessage = (message: string, content: string) =>
    this.#call<Message>('PATCH', `/v1/messages/${id(message)}`, { body: { content } });
  deleteMessage = (message: string) => this.#call<Message>('DELETE', `/v1/messages/${id(message)}`);
  react = (message: string, emoji: string, on: boolean) =>
    this.#call<Message>(on ? 'PUT' : 'DELETE', `/v1/messages/${id(message)}/reactions/${id(emoji)}`);

  // agents and their tasks
  agent = (agent: string) => this.#call<AgentProfile>('GET', `/v1/agents/${id(agent)}`);
  updateAgent = (agent: string, version: number, body: Partial<AgentProfile>) =>
    this.#call<AgentProfile>('PATCH', `/v1/agents/${id(agent)}`, { body, ifMatch: version });
  agents = () => this.#call<List<Agent>>('GET', '/v1/agents', { query: { limit: 100 } });
  tasks = (query: {
    thread_id?: string;
    agent_id?: string;
    status?: string;
    after?: string;
    limit?: number;
  }) => this.#call<List<Task>>('GET', '/v1/tasks', { query: { limit: 100, ...query } });
  task = (task: string) => this.#call<Task>('GET', `/v1/tasks/${id(task)}`);
  taskContext = (task: string) => this.#call<TaskContext>('GET', `/v1/tasks/${id(task)}/context`);
  stopTask = (task: string) => this.#call<Task>('POST', `/v1/tasks/${id(task)}/cancel`, { body: {} });
  retryTask = (task: string) => this.#call<Task>('POST', `/v1/tasks/${id(task)}/retry`, { body: {} });
}

function parse(text: string): unknown {
  if (!text) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
