import { SvelteMap } from 'svelte/reactivity';
import type { Api } from '../api/api';
import { errorMessage } from '../api/problem';
import type { Fork, ForkPatch, Message } from '../api/types';
import type { Uploads } from '../files/uploads.svelte';
import { newId } from '../lib/secure';
import { titleFrom } from '../lib/text';
import type { Drafts } from './drafts.svelte';
import type { ForkState } from './fork.svelte';
import type { Forks } from './forks.svelte';
import type { ForkStart } from './outbox-item';
import type { Outbox } from './outbox.svelte';

export interface ForkActionsDeps {
  readonly api: Api;
  readonly forks: Forks;
  readonly drafts: Drafts;
  readonly outbox: Outbox;
  readonly uploads: Pick<Uploads, 'move'> | null;
  readonly myId: string;
  /** Default agent of a fork from this thread. */
  defaultAgentOf(thread: string): string | null;
  fork(id: string): ForkState;
}
const LOCAL = 'new-';
interface Start {
  fork: Fork;
  origin: Message;
  /** Reason why the fork could not be started. */
  problem: string;
}

/**
 * Actions on forks. A fork that the user starts is shown immediately, under a local ID;
 * messages and choices in it wait for the server's ID.
 */
export class ForkActions {
  readonly #starts = new SvelteMap<string, Start>();
  #made = new Map<string, Promise<string>>();
  /** Local IDs by server ID. */
  #openedAs = new Map<string, string>();
  /** Maps the initial ID of a fork to the server's: URLs and requests may still contain the initial one. */
  #serverIds = new Map<string, string>();
  #deps: ForkActionsDeps;

  constructor(deps: ForkActionsDeps) {
    this.#deps = deps;
  }

  get(id: string): Fork | undefined {
    return this.#starts.get(id)?.fork ?? this.#deps.forks.get(this.#serverIds.get(id) ?? id);
  }
  /** True while the server has not created the fork yet. */
  isStarting(id: string): boolean {
    return this.#starts.has(id);
  }
  problem(id: string): string {
    return this.#starts.get(id)?.problem ?? '';
  }
  /**
   * Key of a fork that does not change when the server creates the fork, so that its panel is not replaced.
   */
  keyOf(id: string): string {
    return this.#openedAs.get(id) ?? id;
  }

  /** Starts a fork. Calls `then` with the server's ID, once it is known. */
  start(origin: Message, then: (id: string, from: string) => void): string {
    const id = LOCAL + newId();
    this.#starts.set(id, { origin, problem: '', fork: this.#draft(id, origin) });
    this.#deps.fork(id).begin(origin);
    this.#make(id, then);
    return id;
  }
  retry(id: string, then: (id: string, from: string) => void): void {
    const start = this.#starts.get(id);
    if (!start) return;
    this.#starts.set(id, { ...start, problem: '' });
    this.#make(id, then);
  }
  #make(id: string, then: (id: string, from: string) => void): void {
    const made = this.#create(id, then);
    this.#made.set(id, made);
    made.catch((e: unknown) => this.#starts.set(id, { ...this.#starts.get(id)!, problem: errorMessage(e) }));
  }
  /** Request that creates a pending fork. Sending it twice creates one fork. */
  startOf(id: string | null | undefined): ForkStart | undefined {
    const start = id ? this.#starts.get(id) : undefined;
    if (!id || !start) return undefined;
    const { thread_id } = start.origin;
    const { agent_id, context } = start.fork;
    const body = {
      message_id: start.origin.id,
      client_id: id.slice(LOCAL.length),
      context,
      ...(agent_id === this.#deps.defaultAgentOf(thread_id) ? {} : { agent_id }),
    };
    return { thread_id, body };
  }
  async #create(id: string, then: (id: string, from: string) => void): Promise<string> {
    const { api, forks, drafts, outbox } = this.#deps;
    const { origin } = this.#starts.get(id)!;
    const { thread_id, body } = this.startOf(id)!;
    const { version } = forks;
    const { fork } = await api.createFork(thread_id, body);
    forks.learn(fork, version);
    const state = this.#deps.fork(fork.id);
    state.begin(origin);
    void state.load(); // someone else may have posted before this response
    this.#openedAs.set(fork.id, id);
    this.#serverIds.set(id, fork.id);
    drafts.move(`d:${id}`, `d:${fork.id}`);
    this.#deps.uploads?.move(`d:${id}`, `d:${fork.id}`);
    outbox.move(id, fork.id);
    // The URL changes together with the state: a paint in between would drop the panel's composer and an open file
    // chooser.
    then(fork.id, id);
    this.#starts.delete(id);
    return fork.id;
  }
  #draft(id: string, origin: Message): Fork {
    const { workspace_id, channel_id, thread_id } = origin;
    return {
      id,
      workspace_id,
      channel_id,
      thread_id,
      message_id: origin.id,
      title: titleFrom(origin),
      description: null,
      agent_id: this.#deps.defaultAgentOf(thread_id),
      agent_version: null,
      auto_reply: true,
      context: 'message',
      status: 'active',
      stale: false,
      message_count: 0,
      created_by: this.#deps.myId,
      created_at: new Date().toISOString(),
      resolved_at: null,
      resolution_id: null,
      draft_id: null,
      presets: [],
      collaboration: null,
    };
  }
  /**
   * Returns the server's ID; rejects if the start failed. `start` is the request for a fork that another
   * window started, or that was started before a reload.
   */
  async settled(id: string, start?: ForkStart): Promise<string> {
    const made = this.#made.get(id);
    if (made || !start) return made ?? id;
    const { api, forks, outbox } = this.#deps;
    const { version } = forks;
    const { fork } = await api.createFork(start.thread_id, start.body);
    forks.learn(fork, version);
    outbox.move(id, fork.id);
    return fork.id;
  }

  /** All forks of a thread, in any state. */
  async list(thread: string): Promise<void> {
    const { api, forks } = this.#deps;
    for (let after: string | undefined, more = true; more;) {
      const { version } = forks;
      const page: Awaited<ReturnType<Api['forks']>> = await api.forks(thread, { after });
      for (const f of page.data) forks.learn(f, version);
      after = page.data.at(-1)?.id;
      more = page.has_more && after !== undefined;
    }
  }
  async patch(id: string, change: ForkPatch): Promise<void> {
    const start = this.#starts.get(id);
    if (start) this.#starts.set(id, { ...start, fork: { ...start.fork, ...change } });
    if (start?.problem) return; // the next attempt to start it sends the change
    const real = await this.settled(id);
    const { version } = this.#deps.forks;
    this.#deps.forks.learn(await this.#deps.api.patchFork(real, change), version);
  }
  async abandon(id: string): Promise<void> {
    const { version } = this.#deps.forks;
    this.#deps.forks.learn((await this.#deps.api.abandon(id)).fork, version);
  }
  async reopen(id: string): Promise<void> {
    const { version } = this.#deps.forks;
    this.#deps.forks.learn((await this.#deps.api.reopen(id)).fork, version);
  }
}
