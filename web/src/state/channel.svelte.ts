import type { Api } from '../api/api';
import { isMissing, say } from '../api/problem';
import type { Task, Thread } from '../api/types';
import type { Loading } from './window.svelte';

export interface ChannelHome {
  readonly api: Api;
  readonly threads: { readonly moment: number };
  learnThread(thread: Thread, moment: number): void;
  learnTasks(tasks: Task[]): void;
}

/** How far the list of a channel's threads has been read. The threads themselves live in `Threads`. */
export class ChannelState {
  readonly id: string;
  status = $state<Loading>('loading');
  problem = $state('');
  more = $state(false);
  busy = $state(false);
  /** The oldest activity that was listed: what is older is not shown, or the list would have holes. */
  reach = $state<string>('');
  #cursor: string | undefined;
  #home: ChannelHome;

  constructor(id: string, home: ChannelHome) {
    this.id = id;
    this.#home = home;
  }

  async load(): Promise<void> {
    if (this.status !== 'ready') this.status = 'loading';
    await this.#page(undefined);
  }
  async loadMore(): Promise<void> {
    if (this.more && !this.busy) await this.#page(this.#cursor);
  }
  async #page(cursor: string | undefined): Promise<void> {
    this.busy = true;
    try {
      const { moment } = this.#home.threads;
      const page = await this.#home.api.threads(this.id, cursor);
      for (const t of page.data) {
        this.#home.learnThread(t, moment);
        this.#home.learnTasks(t.active_tasks ?? []);
      }
      this.#cursor = page.next_cursor ?? undefined;
      this.more = page.has_more && this.#cursor !== undefined;
      this.reach = this.more ? (page.data.at(-1)?.last_activity_at ?? '') : '';
      this.status = 'ready';
    } catch (e) {
      if (this.status !== 'ready') {
        this.problem = say(e);
        this.status = isMissing(e) ? 'missing' : 'error';
      }
    } finally {
      this.busy = false;
    }
  }
  shows(thread: Thread): boolean {
    return thread.last_activity_at >= this.reach;
  }
}
