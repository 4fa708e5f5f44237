import { at, type Transport } from './http';
import type { components } from './schema';
import type { Task } from './types';

type S = components['schemas'];

/** Record of messages that agents read as a summary. */
export type Compaction = S['CompactionRecord'];
export type CompactionItems = Compaction['memory_json'];
export type CompactionItem = CompactionItems['facts'][number];
/** Records of a conversation, and the window of messages that agents receive in addition to the summaries. */
export type CompactionList = S['CompactionList'];
export type SentWindow = S['SentWindow'];
/** A thread or a fork. */
export interface Summarized {
  id: string;
  isFork: boolean;
}

/** API client for summaries, `api.part(CompactionsApi)`. Loaded with the line in long conversations. */
export class CompactionsApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  list({ id, isFork }: Summarized): Promise<CompactionList> {
    return this.#take(
      isFork
        ? this.#http.GET('/v1/forks/{id}/compactions', at({ id }))
        : this.#http.GET('/v1/threads/{id}/compactions', at({ id })),
    );
  }
  /** Queues a pass and returns its task. */
  async start({ id, isFork }: Summarized): Promise<Task> {
    const options = { ...at({ id }), body: {} };
    const { task } = await this.#take(
      isFork
        ? this.#http.POST('/v1/forks/{id}/compactions', options)
        : this.#http.POST('/v1/threads/{id}/compactions', options),
    );
    return task;
  }
  get(id: string): Promise<Compaction> {
    return this.#take(this.#http.GET('/v1/compactions/{id}', at({ id })));
  }
  /** If `on` is true, agents are sent the messages instead of their summary. */
  setExpanded(id: string, on: boolean): Promise<Compaction> {
    return this.#take(
      on
        ? this.#http.POST('/v1/compactions/{id}/expand', at({ id }))
        : this.#http.POST('/v1/compactions/{id}/collapse', at({ id })),
    );
  }
  /** Queues a task that replaces the record. */
  async redo(id: string): Promise<Task> {
    return (await this.#take(this.#http.POST('/v1/compactions/{id}/redo', at({ id })))).task;
  }
  async delete(id: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/compactions/{id}', at({ id })));
  }
}
