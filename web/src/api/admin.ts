import type {
  ApiKey,
  AuditEntry,
  AuthEvent,
  BudgetForm,
  Budgets,
  DefaultModel,
  EmbeddingConnection,
  EmbeddingForm,
  ErasureProgress,
  InviteForm,
  KeyForm,
  ListedNodes,
  LocalServer,
  ModelConnection,
  ModelForm,
  ModelTest,
  NewKey,
  Usage,
  UsageBy,
} from './admin-types';
import { at, ifMatch, versionOf, type Answer, type Transport } from './http';
import { allPages } from './pages';
import type { components } from './schema';
import { Unreachable } from './problem';
import type { Invite, List, Member, NewInvite, SignInSession, Workspace } from './types';

type S = components['schemas'];

const PAGE = 100;

/**
 * API client for the settings pages, `api.part(AdminApi)`. Loaded with them, so that it does not add to the
 * startup bundle.
 */
export class AdminApi {
  #transport: Transport;
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#transport = transport;
    this.#http = transport.http;
    this.#take = transport.take;
  }
  // the user's own account
  changePassword(current_password: string, new_password: string, revoke_keys: boolean): Promise<void> {
    const body = { current_password, new_password, revoke_keys };
    return this.#take(this.#http.POST('/v1/auth/password', { body }));
  }
  /** The newest 100 entries. */
  async authEvents(): Promise<AuthEvent[]> {
    const params = { query: { limit: PAGE } };
    return (await this.#take(this.#http.GET('/v1/auth/events', { params }))).data;
  }
  sessions(): Promise<SignInSession[]> {
    return allPages((query) => this.#take(this.#http.GET('/v1/auth/sessions', { params: { query } })));
  }
  endSession(id: string): Promise<void> {
    return this.#take(this.#http.DELETE('/v1/auth/sessions/{id}', at({ id })));
  }
  keys(): Promise<ApiKey[]> {
    return allPages((query) => this.#take(this.#http.GET('/v1/api-keys', { params: { query } })));
  }
  /** Keys of all members of the workspace, for admins. */
  allKeys(): Promise<ApiKey[]> {
    return allPages((page) =>
      this.#take(this.#http.GET('/v1/api-keys', { params: { query: { ...page, all: true } } })),
    );
  }
  createKey(body: KeyForm): Promise<NewKey> {
    return this.#take(this.#http.POST('/v1/api-keys', { body }));
  }
  removeKey(id: string): Promise<void> {
    return this.#take(this.#http.DELETE('/v1/api-keys/{id}', at({ id })));
  }

  // people
  updateMember(user_id: string, body: S['MemberPatch']): Promise<Member> {
    return this.#take(this.#http.PATCH('/v1/members/{user_id}', { ...at({ user_id }), body }));
  }
  /** Removes a member; with the user's own ID, leaves the workspace. */
  removeMember(user_id: string): Promise<void> {
    return this.#take(this.#http.DELETE('/v1/members/{user_id}', at({ user_id })));
  }
  /** Export of one person's data, as the file that the server streams. */
  async exportMember(user_id: string): Promise<Blob> {
    const init = { ...at({ user_id }), parseAs: 'stream', fetch: this.#transport.untimed } as const;
    const body = await this.#take(this.#http.GET('/v1/members/{user_id}/export', init));
    try {
      const file = await new Response(body, { headers: { 'Content-Type': 'application/json' } }).blob();
      const end = await file.slice(-8).text();
      if (end.trimEnd().endsWith('}')) return file; // otherwise the stream ended early
    } catch {
      // The connection was lost halfway.
    }
    throw new Unreachable(false);
  }
  /** Begins to erase a person's data. */
  eraseMember(user_id: string, handle: string, collection_files: boolean): Promise<ErasureProgress> {
    const body = { handle, collection_files };
    return this.#take(this.#http.POST('/v1/members/{user_id}/erase', { ...at({ user_id }), body }));
  }
  erasure(user_id: string): Promise<ErasureProgress> {
    return this.#take(this.#http.GET('/v1/members/{user_id}/erase', at({ user_id })));
  }
  invites(): Promise<Invite[]> {
    return allPages((query) => this.#take(this.#http.GET('/v1/invites', { params: { query } })));
  }
  async createInvite(body: Omit<InviteForm, 'emails' | 'member_ids'>): Promise<NewInvite> {
    return (await this.#take(this.#http.POST('/v1/invites', { body }))) as NewInvite;
  }
  /** People of imports who have no account, oldest first. Their `email` is that in the archive, or blank. */
  placeholders(): Promise<Member[]> {
    return allPages(async (query) => {
      const found = this.#http.GET('/v1/members/placeholders', { params: { query } });
      const page = (await this.#take(found)) as S['List_Member'];
      return { ...page, data: page.data.map((m) => ({ ...m, id: m.user_id })) };
    });
  }
  /** Creates an invite for each placeholder, at most 100. */
  async invitePlaceholders(member_ids: string[], expires_in_s: number): Promise<NewInvite[]> {
    const body = { member_ids, expires_in_s };
    return ((await this.#take(this.#http.POST('/v1/invites', { body }))) as S['NewInvites']).data;
  }
  /** Merges a placeholder into a member. */
  merge(placeholder: string, into: string): Promise<Member> {
    const path = '/v1/members/{user_id}/merge';
    return this.#take(this.#http.POST(path, { ...at({ user_id: placeholder }), body: { into } }));
  }
  /** Creates and sends an invite for each address. */
  async sendInvites(body: InviteForm): Promise<NewInvite[]> {
    return ((await this.#take(this.#http.POST('/v1/invites', { body }))) as S['NewInvites']).data;
  }
  sendInvite(id: string): Promise<S['InviteSent']> {
    return this.#take(this.#http.POST('/v1/invites/{id}/send', at({ id })));
  }
  revokeInvite(id: string): Promise<void> {
    return this.#take(this.#http.DELETE('/v1/invites/{id}', at({ id })));
  }

  // the workspace
  workspace(id: string): Promise<S['WorkspaceAnswer']> {
    return this.#take(this.#http.GET('/v1/workspaces/{id}', at({ id })));
  }
  updateWorkspace(id: string, body: S['WorkspacePatch']): Promise<Workspace> {
    return this.#take(this.#http.PATCH('/v1/workspaces/{id}', { ...at({ id }), body }));
  }
  /** Newest first; `after` is the last entry of the previous page. */
  audit(of: { actor_id?: string; action?: string; after?: string }): Promise<List<AuditEntry>> {
    const query = { limit: 50, order: 'newest' as const, ...of };
    return this.#take(this.#http.GET('/v1/audit-log', { params: { query } }));
  }
  usage(query: { from: string; to: string; group_by: UsageBy; user_id?: 'me' }): Promise<Usage> {
    return this.#take(this.#http.GET('/v1/usage', { params: { query } }));
  }
  budgets(): Promise<Budgets> {
    return this.#versioned(this.#http.GET('/v1/budgets', { params: { query: {} } }));
  }
  /** Replaces all budgets. */
  putBudgets(version: number, data: BudgetForm[]): Promise<Budgets> {
    const params = { header: ifMatch(version) };
    return this.#versioned(this.#http.PUT('/v1/budgets', { params, body: { data } }));
  }
  async #versioned(call: Promise<Answer<S['BudgetList']>>): Promise<Budgets> {
    const { data } = await this.#take(call);
    return { data, version: versionOf((await call).response) };
  }
  /** Model for agents that do not name one. */
  async defaultModel(): Promise<DefaultModel | null> {
    const { data } = await this.#take(this.#http.GET('/v1/models'));
    const model = data.find((m) => !m.id.startsWith('agent:'));
    return model ? { id: model.id, provider: model.owned_by, overridesAgents: model.overrides_agents } : null;
  }
  /**
   * Returns the connection. If environment variables name the server, tests it first, which takes up to 30
   * seconds.
   */
  model(id: string): Promise<ModelConnection> {
    const init = { ...at({ id }), fetch: this.#transport.untimed };
    return this.#take(this.#http.GET('/v1/workspaces/{id}/model', init));
  }
  /** Tests the settings, which takes up to 30 seconds, then stores them. */
  putModel(id: string, version: number, body: ModelForm): Promise<ModelConnection> {
    const params = { path: { id }, header: ifMatch(version) };
    const init = { params, body, fetch: this.#transport.untimed };
    return this.#take(this.#http.PUT('/v1/workspaces/{id}/model', init));
  }
  removeModel(id: string, version: number): Promise<void> {
    const params = { path: { id }, header: ifMatch(version) };
    return this.#take(this.#http.DELETE('/v1/workspaces/{id}/model', { params }));
  }
  /** Model for search by meaning. */
  embeddings(id: string): Promise<EmbeddingConnection> {
    return this.#take(this.#http.GET('/v1/workspaces/{id}/embeddings', at({ id })));
  }
  /** Requests a vector, which takes up to 30 seconds, then stores the settings. */
  putEmbeddings(id: string, version: number, body: EmbeddingForm): Promise<EmbeddingConnection> {
    const params = { path: { id }, header: ifMatch(version) };
    const init = { params, body, fetch: this.#transport.untimed };
    return this.#take(this.#http.PUT('/v1/workspaces/{id}/embeddings', init));
  }
  removeEmbeddings(id: string, version: number): Promise<void> {
    const params = { path: { id }, header: ifMatch(version) };
    return this.#take(this.#http.DELETE('/v1/workspaces/{id}/embeddings', { params }));
  }
  /** Model servers found on the usual ports of the server's machine. */
  async localModels(id: string): Promise<LocalServer[]> {
    return (await this.#take(this.#http.GET('/v1/workspaces/{id}/local-models', at({ id })))).data;
  }
  /**
   * Nodes, sorted by name. Only admins of the oldest workspace can list them; for others, the route returns
   * 404.
   */
  async nodes(): Promise<ListedNodes> {
    return this.#take(this.#http.GET('/v1/nodes'));
  }
  testModel(model?: string): Promise<ModelTest> {
    const init = { body: model ? { model } : {}, fetch: this.#transport.untimed };
    return this.#take(this.#http.POST('/v1/model-test', init));
  }
}
