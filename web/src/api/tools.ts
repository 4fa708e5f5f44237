import { at, ifMatch, type Transport } from './http';
import { allPages } from './pages';
import type { components } from './schema';

type S = components['schemas'];

/** An MCP server, or a function of clients. */
export type RegisteredTool = S['RegisteredTool'];
export type RegisteredFunction = S['RegisteredFunction'];
export type ToolForm = S['ToolForm'];
export type ToolPatch = S['ToolPatch'];
export type AcceptanceForm = S['AcceptanceForm'];
export type AuthKind = S['AuthKind'];
export type Effect = S['Effect'];
export type Risk = S['Risk'];
export type ToolStatus = S['ToolStatus'];

/** API client for the registry, `api.part(ToolsApi)`. Loaded with its page. */
export class ToolsApi {
  #transport: Transport;
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#transport = transport;
    this.#http = transport.http;
    this.#take = transport.take;
  }
  /** Oldest first. */
  all(): Promise<RegisteredTool[]> {
    return allPages((query) => this.#take(this.#http.GET('/v1/tools', { params: { query } })));
  }
  get(id: string): Promise<RegisteredTool> {
    return this.#take(this.#http.GET('/v1/tools/{id}', at({ id })));
  }
  create(body: ToolForm): Promise<RegisteredTool> {
    return this.#take(this.#http.POST('/v1/tools', { body }));
  }
  /** Fails with `Conflict` if the version has changed. */
  patch(id: string, version: number, body: ToolPatch): Promise<RegisteredTool> {
    const params = { path: { id }, header: ifMatch(version) };
    return this.#take(this.#http.PATCH('/v1/tools/{id}', { params, body }));
  }
  async remove(id: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/tools/{id}', at({ id })));
  }
  /**
   * Fails with `Conflict` if the version has changed, because the secret could otherwise be sent to a
   * different server.
   */
  async putSecret(id: string, version: number, value: string): Promise<void> {
    const params = { path: { id }, header: ifMatch(version) };
    await this.#take(this.#http.PUT('/v1/tools/{id}/secret', { params, body: { value } }));
  }
  /** Reads the functions of a server, which can take longer than other requests. */
  refresh(id: string): Promise<RegisteredTool> {
    const init = { ...at({ id }), fetch: this.#transport.untimed };
    return this.#take(this.#http.POST('/v1/tools/{id}/refresh', init));
  }
  /** Fails with `Conflict` if the server has changed the definition. */
  accept(id: string, name: string, body: AcceptanceForm): Promise<RegisteredTool> {
    return this.#take(this.#http.PUT('/v1/tools/{id}/functions/{name}', { ...at({ id, name }), body }));
  }
  withdraw(id: string, name: string): Promise<RegisteredTool> {
    return this.#take(this.#http.DELETE('/v1/tools/{id}/functions/{name}', at({ id, name })));
  }
  /** Trust level of agents, from 0 to 3. */
  async trust(workspace: string): Promise<number> {
    const policy = await this.#take(this.#http.GET('/v1/workspaces/{id}/policy', at({ id: workspace })));
    return policy.trust_level;
  }
  async setTrust(workspace: string, level: number): Promise<void> {
    const init = { ...at({ id: workspace }), body: { trust_level: level } };
    await this.#take(this.#http.PATCH('/v1/workspaces/{id}/policy', init));
  }
}
