import { at, ifMatch, Transport, type ApiDeps, type Through } from './http';
import type { components } from './schema';
import type {
  Account,
  ActionItem,
  ActionItemPatch,
  AgentProfile,
  Channel,
  Follow,
  FollowLevel,
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

type S = components['schemas'];

export type Posted = S['PostedMessage'];
export type Started = S['PostedThread'];
export type Published = S['Published'];
export type ThreadFilter = 'unread' | 'agents' | 'results';
export type MessagePage = { before?: string; after?: string; around?: string };
/** A message that is sent again with the same `client_id` is posted only once. */
type NewMessage = S['MessageForm'] & { client_id: string };

/** API client. Calls that are only needed after startup are in separate classes, which are loaded on demand. */
export class Api {
  #transport: Transport;
  #http: Transport['http'];
  #take: Transport['take'];

  constructor(of: ApiDeps | Transport = {}) {
    this.#transport = of instanceof Transport ? of : new Transport(of);
    this.#http = this.#transport.http;
    this.#take = this.#transport.take;
  }

  /** The same client bound to a workspace. */
  in(workspace: string, through?: Through): Api {
    return new Api(this.#transport.in(workspace, through));
  }

  /** Part of the client that is loaded on demand (such as api/agents.ts), to keep it out of the startup bundle. */
  part<P>(Part: new (transport: Transport) => P): P {
    return new Part(this.#transport);
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
  signUp(body: S['SignupForm']): Promise<Account> {
    return this.#take(this.#http.POST('/v1/auth/signup', { body }));
  }
  /** Returns the handle that a new member would get. */
  async suggestHandle(body: S['HandleForm']): Promise<string> {
    return (await this.#take(this.#http.POST('/v1/auth/handle', { body }))).handle;
  }
  signIn(email: string, password: string): Promise<Account> {
    return this.#take(this.#http.POST('/v1/auth/login', { body: { email, password } }));
  }
  /** Ends the session; returns the provider at which the person may still be signed in, if it has a page for signing out. */
  async signOut(): Promise<S['LeftProvider'] | undefined> {
    const ended = (await this.#take(this.#http.POST('/v1/auth/logout'))) as S['LoggedOut'] | undefined;
    return ended?.provider;
  }

  // workspaces and people
  createWorkspace(body: S['WorkspaceForm']): Promise<Workspace> {
    return this.#take(this.#http.POST('/v1/workspaces', { body }));
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
  acceptInvite(token: string, handle?: string): Promise<{ workspace: Workspace; member: Member }> {
    return this.#take(this.#http.POST('/v1/invites/{id}/accept', { ...at({ id: token }), body: { handle } }));
  }

  // channels
  channel(id: string): Promise<Channel> {
    return this.#take(this.#http.GET('/v1/channels/{id}', at({ id })));
  }
  createChannel(body: S['ChannelForm']): Promise<Channel> {
    return this.#take(this.#http.POST('/v1/channels', { body }));
  }
  openDirect(body: S['DirectForm']): Promise<Channel> {
    return this.#take(this.#http.POST('/v1/direct', { body }));
  }
  updateChannel(id: string, body: S['ChannelPatch']): Promise<Channel> {
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
  setChannelLevel(id: string, level: FollowLevel): Promise<Channel> {
    return this.#take(this.#http.PUT('/v1/channels/{id}/level', { ...at({ id }), body: { level } }));
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
  threads(id: string, cursor?: string, filter?: ThreadFilter): Promise<List<Thread>> {
    const params = { path: { id }, query: { limit: 30, cursor, filter } };
    return this.#take(this.#http.GET('/v1/channels/{id}/threads', { params }));
  }
  startThread(id: string, body: S['ThreadForm'] & { client_id: string }): Promise<Started> {
    return this.#take(this.#http.POST('/v1/channels/{id}/threads', { ...at({ id }), body }));
  }
  thread(id: string): Promise<OpenedThread> {
    return this.#take(this.#http.GET('/v1/threads/{id}', at({ id })));
  }
  patchThread(id: string, body: ThreadPatch): Promise<Thread> {
    return this.#take(this.#http.PATCH('/v1/threads/{id}', { ...at({ id }), body }));
  }
  /** Runs a message of a chat again, in a variant of the chat. */
  runAgain(chat: string, body: S['VariantForm'] & { client_id: string }): Promise<Started> {
    return this.#take(this.#http.POST('/v1/threads/{id}/variants', { ...at({ id: chat }), body }));
  }
  deleteThread(id: string): Promise<void> {
    return this.#take(this.#http.DELETE('/v1/threads/{id}', at({ id })));
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

  // forks
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
  /** Levels as for threads. */
  followFork(id: string, level: 'all' | 'none' | null): Promise<Follow> {
    const path = at({ id });
    if (!level) return this.#take(this.#http.DELETE('/v1/forks/{id}/follow', path));
    return this.#take(this.#http.PUT('/v1/forks/{id}/follow', { ...path, body: { level } }));
  }
  markForkRead(id: string, seq: number): Promise<{ unread_count: number }> {
    return this.#take(this.#http.PUT('/v1/forks/{id}/read', { ...at({ id }), body: { seq } }));
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
  resolve(id: string, body: S['ResolveForm'] = {}): Promise<{ fork: Fork; task: Task }> {
    return this.#take(this.#http.POST('/v1/forks/{id}/resolve', { ...at({ id }), body }));
  }
  /** Returns the resolution; send its `revision` with a change. */
  resolution(id: string): Promise<Resolution> {
    return this.#take(this.#http.GET('/v1/forks/{id}/resolution', at({ id })));
  }
  /**
   * Fails with `Conflict` if the draft no longer has `revision`. Revision 0 creates a draft that is written
   * by hand.
   */
  patchResolution(id: string, revision: number, body: ResolutionEdit): Promise<Resolution> {
    const params = { path: { id }, header: ifMatch(revision) };
    return this.#take(this.#http.PATCH('/v1/forks/{id}/resolution', { params, body }));
  }
  /** Applies `edit` to the draft with `revision` and publishes it; fails with `Conflict` as above. */
  publish(
    id: string,
    edit: ResolutionEdit | null = null,
    revision: number | null = null,
  ): Promise<Published> {
    const params = { path: { id }, header: revision === null ? {} : ifMatch(revision) };
    const body = edit ? { resolution: edit } : {};
    return this.#take(this.#http.POST('/v1/forks/{id}/publish', { params, body }));
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
