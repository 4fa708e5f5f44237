import type { Transport } from './api';
import { ApiError, Conflict, Unreachable } from './problem';
import { serverSent } from './sse';
import type {
  AgentDiff,
  AgentExport,
  AgentFile,
  AgentImport,
  AgentPatch,
  AgentPreview,
  AgentTemplate,
  AgentVersion,
  NewAgent,
  ResolvedAgent,
  ResponseEvent,
  ResponseRequest,
  WholeFile,
  WholeVersion,
  WorkspacePolicy,
} from './agent-types';
import type { Agent, AgentProfile, List } from './types';

type Query = Record<string, string | number | boolean | undefined>;
interface Call {
  query?: Query;
  body?: object;
  /** Version that is being changed; if it is stale, the request fails with the current object. */
  version?: number | null;
}
const PAGE = 100;
const part = (text: string) => encodeURIComponent(text);

/**
 * Client of the agent pages, `api.part(AgentsApi)`. Loaded with them, so that it does not add to the startup bundle.
 */
export class AgentsApi {
  #transport: Transport;
  constructor(transport: Transport) {
    this.#transport = transport;
  }
  async #send<T>(method: string, path: string, call: Call = {}): Promise<T> {
    try {
      return await this.#transport.call<T>(method, `/v1/${path}`, {
        query: call.query,
        body: call.body,
        headers: call.version ? { 'If-Match': `"${call.version}"` } : {},
      });
    } catch (e) {
      const error = e instanceof ApiError && e.status === 409 ? e : null;
      const current = (error?.body as { error?: { current?: AgentProfile } } | null)?.error?.current;
      throw error && current ? new Conflict(error, current) : e;
    }
  }

  /** All visible agents, including archived ones, in the server's order. */
  async all(): Promise<Agent[]> {
    const list: Agent[] = [];
    for (let after: string | undefined, more = true; more;) {
      const page = await this.#send<List<Agent>>('GET', 'agents', { query: { limit: PAGE, after } });
      list.push(...page.data);
      after = page.data.at(-1)?.id;
      more = page.has_more && after !== undefined;
    }
    return list;
  }
  get(id: string): Promise<AgentProfile> {
    return this.#send('GET', `agents/${id}`);
  }
  resolved(id: string): Promise<ResolvedAgent> {
    return this.#send('GET', `agents/${id}`, { query: { resolve: true } });
  }
  create(body: NewAgent): Promise<AgentProfile> {
    return this.#send('POST', 'agents', { body });
  }
  /** Fails with `Conflict<AgentProfile>` if the version has changed. */
  patch(id: string, version: number, body: AgentPatch): Promise<AgentProfile> {
    return this.#send('PATCH', `agents/${id}`, { body, version });
  }
  archive(id: string, version: number): Promise<void> {
    return this.#send('DELETE', `agents/${id}`, { version });
  }
  /** Deletes the agent permanently, including its history. */
  remove(id: string): Promise<void> {
    return this.#send('DELETE', `agents/${id}`, { query: { permanent: true } });
  }
  duplicate(id: string, body: { name?: string; display_name?: string } = {}): Promise<AgentProfile> {
    return this.#send('POST', `agents/${id}/duplicate`, { body });
  }
  makeDefault(id: string): Promise<AgentProfile> {
    return this.#send('POST', `agents/${id}/default`);
  }

  /** Newest first. */
  versions(id: string, cursor?: string): Promise<List<AgentVersion>> {
    return this.#send('GET', `agents/${id}/versions`, { query: { limit: 30, cursor } });
  }
  version(id: string, version: number): Promise<WholeVersion> {
    return this.#send('GET', `agents/${id}/versions/${version}`);
  }
  diff(id: string, version: number, against: number): Promise<AgentDiff> {
    return this.#send('GET', `agents/${id}/versions/${version}/diff`, { query: { against } });
  }
  /** Fails with `Conflict<AgentProfile>` as above. */
  rollback(id: string, version: number, target_version: number): Promise<AgentProfile> {
    return this.#send('POST', `agents/${id}/rollback`, { body: { target_version }, version });
  }

  export(id: string): Promise<AgentExport> {
    return this.#send('GET', `agents/${id}/export`);
  }
  import(body: AgentImport): Promise<AgentProfile> {
    return this.#send('POST', 'agents/import', { body });
  }
  async templates(): Promise<AgentTemplate[]> {
    return (await this.#send<List<AgentTemplate>>('GET', 'agent-templates')).data;
  }
  preview(body: { agent_id?: string; agent: NewAgent }): Promise<AgentPreview> {
    return this.#send('POST', 'agents/preview', { body });
  }

  async files(id: string): Promise<AgentFile[]> {
    return (await this.#send<List<AgentFile>>('GET', `agents/${id}/files`)).data;
  }
  file(id: string, path: string): Promise<WholeFile> {
    return this.#send('GET', `agents/${id}/files/${place(path)}`);
  }
  putFile(id: string, path: string, content: string, version: number | null): Promise<WholeFile> {
    return this.#send('PUT', `agents/${id}/files/${place(path)}`, { body: { content }, version });
  }
  removeFile(id: string, path: string): Promise<void> {
    return this.#send('DELETE', `agents/${id}/files/${place(path)}`);
  }

  policy(workspace: string): Promise<WorkspacePolicy> {
    return this.#send('GET', `workspaces/${workspace}/policy`);
  }
  patchPolicy(workspace: string, body: Partial<WorkspacePolicy>): Promise<WorkspacePolicy> {
    return this.#send('PATCH', `workspaces/${workspace}/policy`, { body });
  }
  /** Shared file for agents that have no such file of their own; null if there is none. */
  async sharedFile(workspace: string, path: string): Promise<WholeFile | null> {
    const { data } = await this.#send<List<AgentFile>>('GET', `workspaces/${workspace}/files`);
    return data.some((file) => file.path === path)
      ? this.#send('GET', `workspaces/${workspace}/files/${place(path)}`)
      : null;
  }
  putSharedFile(
    workspace: string,
    path: string,
    content: string,
    version: number | null,
  ): Promise<WholeFile> {
    return this.#send('PUT', `workspaces/${workspace}/files/${place(path)}`, {
      body: { content },
      version,
    });
  }
  removeSharedFile(workspace: string, path: string): Promise<void> {
    return this.#send('DELETE', `workspaces/${workspace}/files/${place(path)}`);
  }

  /** Streams a model's response. Aborting the request stops it on the server. */
  async *respond(request: ResponseRequest, signal: AbortSignal): AsyncGenerator<ResponseEvent> {
    const body = await this.#transport.stream('/v1/responses', { ...request, stream: true }, signal);
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
const place = (path: string) => path.split('/').map(part).join('/');
