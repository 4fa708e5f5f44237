import { SvelteMap } from 'svelte/reactivity';
import { isMissing } from '../api/problem';
import type { Message } from '../api/types';
import type { WorkspaceState } from '../state/workspace.svelte';

export type Source = NonNullable<Message['metadata']['sources']>[number];
/** A source that is a message or one of its files. */
export type SourceInMessage = Source & { message_id: string; thread_id: string; channel_id: string };
export const isInMessage = (s: Source): s is SourceInMessage =>
  !!s.message_id && !!s.thread_id && !!s.channel_id;

/** Maximum number of requests at a time. */
const IN_FLIGHT_MAX = 4;
/** Maximum number of known messages; the oldest ones are dropped. */
const KEEP = 500;

/** Messages that replies cite, kept up to date by events. Each one that is not loaded is requested once. */
export class CitedMessages {
  /** Null if the user cannot see the message. */
  readonly #found = new SvelteMap<string, Message | null>();
  #ws: WorkspaceState;
  /** IDs in each list of sources that is in view. */
  #wanted = new Set<readonly string[]>();
  #inFlight = new Set<string>();
  #failed = new Set<string>();
  /** `starts` of the state at the time of the oldest known message. */
  #start: number;

  constructor(ws: WorkspaceState) {
    this.#ws = ws;
    this.#start = ws.outcomes.starts;
    ws.onEvent((e) => {
      if (e.type !== 'message.updated' && e.type !== 'message.deleted') return;
      const { message: m } = e.data;
      if (this.#found.has(m.id) || this.#inFlight.has(m.id)) this.#found.set(m.id, m);
    });
  }

  /** Null if the user cannot see the message; undefined while it is not known. */
  get(id: string): Message | null | undefined {
    const found = this.#found.get(id);
    return found?.deleted_at ? null : found;
  }
  /** Adopts cited messages that are known from threads and open conversations. */
  learn(sources: readonly Source[]): void {
    for (const s of sources.filter(isInMessage)) {
      const thread = this.#ws.threads.map.get(s.thread_id);
      const open = this.#ws.window(s)?.messages ?? [];
      const near = [thread?.root_message, thread?.last_message, ...open];
      const loaded = near.find((m) => m?.id === s.message_id);
      if (loaded) this.#add(loaded.id, loaded);
    }
  }
  /**
   * Requests messages that are not known. Returns a function that withdraws requests that have not been sent
   * yet.
   */
  want(sources: readonly Source[]): () => void {
    // The whole state was loaded again: events may have been missed.
    if (this.#start !== this.#ws.outcomes.starts) {
      this.#start = this.#ws.outcomes.starts;
      this.#found.clear();
    }
    const visible = sources.filter(isInMessage).filter((s) => this.#ws.channels.map.has(s.channel_id));
    const ids = visible.map((s) => s.message_id);
    for (const id of ids) this.#failed.delete(id);
    this.#wanted.add(ids);
    this.#next();
    return () => this.#wanted.delete(ids);
  }

  #next(): void {
    for (const id of [...this.#wanted].flat()) {
      if (this.#inFlight.size === IN_FLIGHT_MAX) return;
      if (!this.#found.has(id) && !this.#inFlight.has(id) && !this.#failed.has(id)) void this.#load(id);
    }
  }
  async #load(id: string): Promise<void> {
    this.#inFlight.add(id);
    try {
      this.#add(id, await this.#ws.api.message(id));
    } catch (e) {
      if (isMissing(e)) this.#add(id, null);
      else this.#failed.add(id); // the next list in view tries again
    } finally {
      this.#inFlight.delete(id);
      this.#next();
    }
  }
  /** Adds a message from a response or a list, unless a newer one is known from an event. */
  #add(id: string, message: Message | null): void {
    if (this.#found.has(id)) return;
    this.#found.set(id, message);
    if (this.#found.size > KEEP) this.#found.delete(this.#found.keys().next().value!);
  }
}

/** Cited messages of a workspace, created with the first list of sources. */
export const citedMessagesOf = (ws: WorkspaceState): CitedMessages => (ws.cited ??= new CitedMessages(ws));
