import type {
  ApiKey,
  AuditEntry,
  AuthEvent,
  DefaultModel,
  Erased,
  InviteForm,
  KeyForm,
  Model,
  ModelTest,
  NewKey,
  Usage,
  UsageBy,
} from './admin-types';
import type { Transport } from './api';
import { Unreachable } from './problem';
import type { Invite, List, Member, Role, SignInSession, Workspace } from './types';

type Query = Record<string, string | number | undefined>;
const PAGE = 100;

/**
 * Client of the settings pages, `api.part(AdminApi)`. Loaded with them, so that it does not add to the startup bundle.
 */
export class AdminApi {
  #transport: Transport;
  constructor(transport: Transport) {
    this.#transport = transport;
  }
  #send<T>(method: string, path: string, body?: object, slow = false): Promise<T> {
    return this.#transport.call<T>(method, `/v1/${path}`, { body, slow });
  }
  #get<T>(path: string, query: Query = {}): Promise<T> {
    return this.#transport.call<T>('GET', `/v1/${path}`, { query });
  }
  /** All pages of a list, oldest first. */
  async #all<T extends { id: string }>(path: string, query: Query = {}): Promise<T[]> {
    const list: T[] = [];
    for (let after: string | undefined, more = true; more;) {
      const page = await this.#get<List<T>>(path, { ...query, limit: PAGE, after });
      list.push(...page.data);
      after = page.data.at(-1)?.id;
      more = page.has_more && after !== undefined;
    }
    return list;
  }

  // the user's own account
  changePassword(current_password: string, new_password: string, revoke_keys: boolean): Promise<void> {
    return this.#send('POST', 'auth/password', { current_password, new_password, revoke_keys });
  }
  /** The newest 100 entries. */
  async authEvents(): Promise<AuthEvent[]> {
    return (await this.#get<List<AuthEvent>>('auth/events', { limit: PAGE })).data;
  }
  sessions(): Promise<SignInSession[]> {
    return this.#all('auth/sessions');
  }
  endSession(id: string): Promise<void> {
    return this.#send('DELETE', `auth/sessions/${id}`);
  }
  keys(): Promise<ApiKey[]> {
    return this.#all('api-keys');
  }
  /** Keys of all members of the workspace, for admins. */
  allKeys(): Promise<ApiKey[]> {
    return this.#all('api-keys', { all: 'true' });
  }
  createKey(body: KeyForm): Promise<NewKey> {
    return this.#send('POST', 'api-keys', body);
  }
  removeKey(id: string): Promise<void> {
    return this.#send('DELETE', `api-keys/${id}`);
  }

  // people
  updateMember(user: string, body: { role?: Role; handle?: string }): Promise<Member> {
    return this.#send('PATCH', `members/${user}`, body);
  }
  /** Removes a member; with the user's own ID, leaves the workspace. */
  removeMember(user: string): Promise<void> {
    return this.#send('DELETE', `members/${user}`);
  }
  /** Export of one person's data, as the file that the server streams. */
  async exportMember(user: string): Promise<Blob> {
    const path = `/v1/members/${user}/export`;
    const init = { parseAs: 'stream', slow: true } as const;
    const body = await this.#transport.call<ReadableStream<Uint8Array>>('GET', path, init);
    try {
      const file = await new Response(body, { headers: { 'Content-Type': 'application/json' } }).blob();
      const end = await file.slice(-8).text();
      if (end.trimEnd().endsWith('}')) return file; // else it broke off
    } catch {
      // The connection was lost halfway.
    }
    throw new Unreachable(false);
  }
  eraseMember(user: string, handle: string): Promise<Erased> {
    return this.#send('POST', `members/${user}/erase`, { handle }, true);
  }
  invites(): Promise<Invite[]> {
    return this.#all('invites');
  }
  createInvite(body: InviteForm): Promise<Invite> {
    return this.#send('POST', 'invites', body);
  }
  revokeInvite(id: string): Promise<void> {
    return this.#send('DELETE', `invites/${id}`);
  }

  // the workspace
  updateWorkspace(id: string, body: { name?: string; slug?: string }): Promise<Workspace> {
    return this.#send('PATCH', `workspaces/${id}`, body);
  }
  /** Newest first; `after` is the last entry of the previous page. */
  audit(of: { actor_id?: string; action?: string; after?: string }): Promise<List<AuditEntry>> {
    return this.#get('audit-log', { limit: 50, order: 'newest', ...of });
  }
  usage(of: { from: string; to: string; group_by: UsageBy; user_id?: 'me' }): Promise<Usage> {
    return this.#get('usage', of);
  }
  /** The model of agents that do not name one. */
  async defaultModel(): Promise<DefaultModel | null> {
    const { data } = await this.#get<{ data: Model[] }>('models');
    const model = data.find((m) => !m.id.startsWith('agent:'));
    return model ? { id: model.id, provider: model.owned_by, overridesAgents: model.overrides_agents } : null;
  }
  testModel(model?: string): Promise<ModelTest> {
    return this.#send('POST', 'model-test', model ? { model } : {}, true);
  }
}
