import type { AgentPatch } from './agent-types';
import { at, type Transport } from './http';
import type { components } from './schema';
import type { Task } from './types';

type S = components['schemas'];

/** Estimated usage of a replay. */
export type ReplayEstimate = S['ReplayEstimate'];
/** Recent replies of an agent, and what its draft replies to the same messages. */
export type Replay = S['Replay'];
export type ReplayCase = S['ReplayCase'];
export type SkippedReply = S['SkippedReply'];

/** API client for replays, `api.part(ReplaysApi)`. Loaded with the editor. */
export class ReplaysApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  async estimate(id: string, draft: AgentPatch): Promise<ReplayEstimate> {
    const params = { path: { id }, query: { estimate: true } };
    const found = await this.#take(this.#http.POST('/v1/agents/{id}/replays', { params, body: { draft } }));
    if ('task' in found) throw new TypeError('The server started a replay instead of an estimate.');
    return found;
  }
  /** Starts a replay and returns its queued root task. */
  async start(id: string, draft: AgentPatch): Promise<Task> {
    const started = await this.#take(
      this.#http.POST('/v1/agents/{id}/replays', { ...at({ id }), body: { draft } }),
    );
    if (!('task' in started)) throw new TypeError('The server estimated a replay instead of starting it.');
    return started.task;
  }
  get(task: string): Promise<Replay> {
    return this.#take(this.#http.GET('/v1/tasks/{id}/replay', at({ id: task })));
  }
}
