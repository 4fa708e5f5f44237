import type { ServerEvent } from '../api/events';
import { errorMessage } from '../api/problem';
import type { Run, RunsApi, RunStatus } from '../api/runs';

/** Empty values match any run. */
export interface RunFilter {
  workflow: string;
  status: RunStatus | '';
}

/** Loaded runs, newest first. */
export class RunList {
  status = $state<'loading' | 'ready' | 'error'>('loading');
  problem = $state('');
  runs = $state.raw<Run[]>([]);
  more = $state(false);
  busy = $state(false);
  filter = $state.raw<RunFilter>({ workflow: '', status: '' });
  #api: Pick<RunsApi, 'list'>;
  #cursor: string | undefined;
  #run = 0;

  constructor(api: Pick<RunsApi, 'list'>) {
    this.#api = api;
  }
  /** The current list stays on screen until the response arrives. */
  async load(filter: RunFilter): Promise<void> {
    this.filter = filter;
    await this.#page(undefined);
  }
  async loadMore(): Promise<void> {
    if (this.more && !this.busy) await this.#page(this.#cursor);
  }
  async #page(cursor: string | undefined): Promise<void> {
    const run = ++this.#run;
    const { workflow, status } = this.filter;
    this.busy = true;
    this.problem = '';
    try {
      const page = await this.#api.list({
        ...(workflow && { workflow_id: workflow }),
        ...(status && { status }),
        ...(cursor && { cursor }),
      });
      if (run !== this.#run) return;
      this.runs = cursor ? [...this.runs, ...page.data] : page.data;
      this.#cursor = page.next_cursor ?? undefined;
      this.more = page.has_more && this.#cursor !== undefined;
      this.status = 'ready';
    } catch (e) {
      if (run !== this.#run) return;
      this.problem = errorMessage(e);
      if (!cursor) this.status = 'error';
    } finally {
      if (run === this.#run) this.busy = false;
    }
  }
  onEvent(e: ServerEvent): void {
    if (e.type !== 'run.created' && e.type !== 'run.updated') return;
    // A response in flight may be older than the event.
    if (this.busy) return void this.load(this.filter);
    const { run } = e.data;
    const others = this.runs.filter((r) => r.id !== run.id);
    const isKnown = others.length < this.runs.length;
    const isLoaded = isKnown || !this.more || run.id > (others.at(-1)?.id ?? '');
    const fits = this.#fits(run) && isLoaded;
    this.runs = fits ? [...others, run].sort((a, b) => (a.id < b.id ? 1 : -1)) : others;
  }
  #fits(run: Run): boolean {
    const { workflow, status } = this.filter;
    return (!workflow || run.workflow_id === workflow) && (!status || run.status === status);
  }
}
