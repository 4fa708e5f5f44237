import type { AdminApi } from '../api/admin';
import type { AuditEntry } from '../api/admin-types';
import { errorMessage } from '../api/problem';

export interface AuditFilter {
  actor: string;
  action: string;
}

/** Loaded admin actions, newest first. */
export class AuditList {
  status = $state<'loading' | 'ready' | 'error'>('loading');
  problem = $state('');
  entries = $state.raw<AuditEntry[]>([]);
  more = $state(false);
  busy = $state(false);
  filter = $state.raw<AuditFilter>({ actor: '', action: '' });
  #api: Pick<AdminApi, 'audit'>;
  #run = 0;

  constructor(api: Pick<AdminApi, 'audit'>) {
    this.#api = api;
  }
  /** The current list stays on screen until the response arrives. */
  async load(filter: AuditFilter): Promise<void> {
    this.filter = filter;
    await this.#page(undefined);
  }
  async loadMore(): Promise<void> {
    if (this.more && !this.busy) await this.#page(this.entries.at(-1)?.id);
  }
  async #page(after: string | undefined): Promise<void> {
    const run = ++this.#run;
    const { actor, action } = this.filter;
    this.busy = true;
    this.problem = '';
    try {
      const page = await this.#api.audit({
        ...(actor ? { actor_id: actor } : {}),
        ...(action ? { action } : {}),
        ...(after ? { after } : {}),
      });
      if (run !== this.#run) return;
      this.entries = after ? [...this.entries, ...page.data] : page.data;
      this.more = page.has_more && page.data.length > 0;
      this.status = 'ready';
    } catch (e) {
      if (run !== this.#run) return;
      this.problem = errorMessage(e);
      if (!after) this.status = 'error';
    } finally {
      if (run === this.#run) this.busy = false;
    }
  }
}
