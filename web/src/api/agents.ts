import type {
  AgentDiff,
  AgentExport,
  AgentFile,
  AgentImport,
  ImportedAgent,
  SentContext,
  AgentPatch,
  AgentPreview,
  AgentTemplate,
  AgentVersion,
  DraftedAgent,
  NewAgent,
  NextContext,
  PolicyPatch,
  PreviewForm,
  ResponseEvent,
  ResponseRequest,
  VersionedPolicy,
  WholeFile,
  WholeVersion,
  WorkspacePolicy,
} from './agent-types';
import { at, ifMatch, versionOf, type Answer, type Transport } from './http';
import { same } from '../lib/merge';
import { allPages } from './pages';
import type { components } from './schema';
import { Conflict, Unreachable } from './problem';
import { serverSent } from './sse';
import type { Agent, AgentProfile, List } from './types';

type S = components['schemas'];

/** Encodes path parameters. Slashes in a file's path are kept, because they are part of the URL. */
const pathSerializer = (to: string, params: Record<string, unknown>): string =>
  to.replace(/\{(\w+)\}/g, (_, name: string) =>
    String(params[name]).split('/').map(encodeURIComponent).join('/'),
  );

/**
 * API client for the agent pages, `api.part(AgentsApi)`. Loaded with them, so that it does not add to the
 * startup bundle.
 */
export class AgentsApi {
  #transport: Transport;
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#transport = transport;
    this.#http = transport.http;
    this.#take = transport.take;
  }
  /** All visible agents, including archived ones, in the server's order. */
  all(): Promise<Agent[]> {
    return allPages((query) => this.#take(this.#http.GET('/v1/agents', { params: { query } })));
  }
  get(id: string): Promise<AgentProfile> {
    return this.#take(this.#http.GET('/v1/agents/{id}', at({ id })));
  }
  /** The profile with its bases merged in. */
  resolved(id: string): Promise<AgentProfile> {
    const params = { path: { id }, query: { resolve: true } };
    return this.#take(this.#http.GET('/v1/agents/{id}', { params }));
  }
  create(body: NewAgent): Promise<AgentProfile> {
    return this.#take(this.#http.POST('/v1/agents', { body }));
  }
  /** Fails with `Conflict` if the version has changed. */
  patch(id: string, version: number, body: AgentPatch): Promise<AgentProfile> {
    const params = { path: { id }, header: ifMatch(version) };
    return this.#take(this.#http.PATCH('/v1/agents/{id}', { params, body }));
  }
  async archive(id: string, version: number): Promise<void> {
    const params = { path: { id }, header: ifMatch(version) };
    await this.#take(this.#http.DELETE('/v1/agents/{id}', { params }));
  }
  /** Deletes the agent permanently, including its history. */
  async remove(id: string): Promise<void> {
    const params = { path: { id }, query: { permanent: true } };
    await this.#take(this.#http.DELETE('/v1/agents/{id}', { params }));
  }
  duplicate(id: string, body: S['CopyForm'] = {}): Promise<AgentProfile> {
    return this.#take(this.#http.POST('/v1/agents/{id}/duplicate', { ...at({ id }), body }));
  }
  makeDefault(id: string): Promise<AgentProfile> {
    return this.#take(this.#http.POST('/v1/agents/{id}/default', at({ id })));
  }

  /** Newest first. */
  versions(id: string, cursor?: string): Promise<List<AgentVersion>> {
    const params = { path: { id }, query: { limit: 30, cursor } };
    return this.#take(this.#http.GET('/v1/agents/{id}/versions', { params }));
  }
  version(id: string, version: number): Promise<WholeVersion> {
    return this.#take(this.#http.GET('/v1/agents/{id}/versions/{version}', at({ id, version })));
  }
  diff(id: string, version: number, against: number): Promise<AgentDiff> {
    const params = { path: { id, version }, query: { against } };
    return this.#take(this.#http.GET('/v1/agents/{id}/versions/{version}/diff', { params }));
  }
  /** Fails with `Conflict` if the version has changed. */
  rollback(id: string, version: number, target_version: number): Promise<AgentProfile> {
    const params = { path: { id }, header: ifMatch(version) };
    return this.#take(this.#http.POST('/v1/agents/{id}/rollback', { params, body: { target_version } }));
  }

  /** Makes the user the author of all parts of an agent and of its files. */
  accept(id: string, version: number): Promise<AgentProfile> {
    const params = { path: { id }, header: ifMatch(version) };
    return this.#take(this.#http.POST('/v1/agents/{id}/accept', { params }));
  }

  export(id: string): Promise<AgentExport> {
    return this.#take(this.#http.GET('/v1/agents/{id}/export', at({ id })));
  }
  import(body: AgentImport): Promise<ImportedAgent> {
    return this.#take(this.#http.POST('/v1/agents/import', { body }));
  }
  async templates(): Promise<AgentTemplate[]> {
    return (await this.#take(this.#http.GET('/v1/agent-templates'))).data;
  }
  /** Drafts an agent with a model, which can take longer than other requests. */
  draft(description: string, signal: AbortSignal): Promise<DraftedAgent> {
    const init = { body: { description }, signal, fetch: this.#transport.untimed };
    return this.#take(this.#http.POST('/v1/agents/draft', init));
  }
  preview(body: PreviewForm): Promise<AgentPreview> {
    return this.#take(this.#http.POST('/v1/agents/preview', { body }));
  }
  /** The prompt of a reply to the user now, in a thread, a fork, or a new thread of a channel. */
  context(place: string, agent_id: string): Promise<NextContext> {
    const params = { path: { id: place }, query: { agent_id } };
    if (place.startsWith('thread_'))
      return this.#take(this.#http.GET('/v1/threads/{id}/context', { params }));
    if (place.startsWith('fork_')) return this.#take(this.#http.GET('/v1/forks/{id}/context', { params }));
    return this.#take(this.#http.GET('/v1/channels/{id}/context', { params }));
  }

  async files(id: string): Promise<AgentFile[]> {
    return (await this.#take(this.#http.GET('/v1/agents/{id}/files', at({ id })))).data;
  }
  file(id: string, path: string): Promise<WholeFile> {
    const init = { ...at({ id, path }), pathSerializer };
    return this.#take(this.#http.GET('/v1/agents/{id}/files/{path}', init));
  }
  /**
   * `version` is the file's version, or the agent's version if the file is part of its profile; 0 for a new
   * file. Fails with `Conflict` if the version has changed.
   */
  putFile(id: string, path: string, content: string, version: number): Promise<WholeFile> {
    const params = { path: { id, path }, header: ifMatch(version) };
    const init = { params, body: { content }, pathSerializer };
    return this.#take(this.#http.PUT('/v1/agents/{id}/files/{path}', init));
  }
  removeFile(id: string, path: string, version: number): Promise<void> {
    const params = { path: { id, path }, header: ifMatch(version) };
    return this.#take(this.#http.DELETE('/v1/agents/{id}/files/{path}', { params, pathSerializer }));
  }

  policy(workspace: string): Promise<VersionedPolicy> {
    return this.#versioned(this.#http.GET('/v1/workspaces/{id}/policy', at({ id: workspace })));
  }
  /** Fails with `Conflict` if the version has changed. */
  patchPolicy(workspace: string, version: number, body: PolicyPatch): Promise<VersionedPolicy> {
    const params = { path: { id: workspace }, header: ifMatch(version) };
    return this.#versioned(this.#http.PATCH('/v1/workspaces/{id}/policy', { params, body }));
  }
  /** Changes the policy that was loaded as `seen`, unless someone else changed the same fields since. */
  async changePolicy(workspace: string, seen: VersionedPolicy, body: PolicyPatch): Promise<VersionedPolicy> {
    try {
      return await this.patchPolicy(workspace, seen.version, body);
    } catch (e) {
      if (!(e instanceof Conflict)) throw e;
      const now = await this.policy(workspace);
      const fields = Object.keys(body) as (keyof PolicyPatch)[];
      if (fields.some((field) => !same(seen[field], now[field]))) throw e;
      return this.patchPolicy(workspace, now.version, body);
    }
  }
  async #versioned(call: Promise<Answer<WorkspacePolicy>>): Promise<VersionedPolicy> {
    const policy = await this.#take(call);
    return { ...policy, version: versionOf((await call).response) };
  }
  /** The workspace context that agents receive in public channels. */
  workspaceContext(workspace: string): Promise<SentContext> {
    return this.#take(this.#http.GET('/v1/workspaces/{id}/context', at({ id: workspace })));
  }
  /** Shared file for agents that have no such file of their own; null if there is none. */
  async sharedFile(workspace: string, path: string): Promise<WholeFile | null> {
    const id = workspace;
    const { data } = await this.#take(this.#http.GET('/v1/workspaces/{id}/files', at({ id })));
    if (!data.some((file) => file.path === path)) return null;
    const init = { ...at({ id, path }), pathSerializer };
    return this.#take(this.#http.GET('/v1/workspaces/{id}/files/{path}', init));
  }
  /** `version` is 0 for a new file. Fails with `Conflict` if the version has changed. */
  putSharedFile(workspace: string, path: string, content: string, version: number): Promise<WholeFile> {
    const params = { path: { id: workspace, path }, header: ifMatch(version) };
    const init = { params, body: { content }, pathSerializer };
    return this.#take(this.#http.PUT('/v1/workspaces/{id}/files/{path}', init));
  }
  removeSharedFile(workspace: string, path: string, version: number): Promise<void> {
    const params = { path: { id: workspace, path }, header: ifMatch(version) };
    return this.#take(this.#http.DELETE('/v1/workspaces/{id}/files/{path}', { params, pathSerializer }));
  }

  /** Streams a model's response. Aborting the request stops it on the server. */
  async *respond(request: ResponseRequest, signal: AbortSignal): AsyncGenerator<ResponseEvent> {
    const init = { parseAs: 'stream', signal, fetch: this.#transport.untimed } as const;
    const body = await this.#take(
      this.#http.POST('/v1/responses', { ...init, body: { ...request, stream: true } }),
    );
    if (!body) return;
    try {
      for await (const { data } of serverSent(body)) {
        if (data === '[DONE]') return;
        yield JSON.parse(data) as ResponseEvent;
      }
    } catch (e) {
      throw signal.aborted ? e : new Unreachable(false);
    }
  }
}
