import type { ServerEvent } from '../api/events';
import { errorMessage } from '../api/problem';
import type { Schedule, SchedulesApi } from '../api/schedules';

/** Schedules that the user can see, oldest first, as far as they are loaded; events keep them up to date. */
export class ScheduleList {
  status = $state<'loading' | 'ready' | 'error'>('loading');
  problem = $state('');
  entries = $state.raw<Schedule[]>([]);
  more = $state(false);
  busy = $state(false);
  #api: Pick<SchedulesApi, 'list'>;
  /** Something changed while a response was on its way. */
  #stale = false;

  constructor(api: Pick<SchedulesApi, 'list'>) {
    this.#api = api;
  }
  /** Loads the list again, as far as it is loaded. The current one stays on screen until the response arrives. */
  async refresh(): Promise<void> {
    this.#stale = this.busy;
    if (!this.busy) await this.#read([], this.entries.length);
  }
  async loadMore(): Promise<void> {
    if (this.more && !this.busy) await this.#read(this.entries, this.entries.length + 1);
  }
  async #read(known: Schedule[], wanted: number): Promise<void> {
    let read = known;
    this.busy = true;
    this.problem = '';
    try {
      let more: boolean;
      do {
        const page = await this.#api.list(read.at(-1)?.id);
        read = [...read, ...page.data];
        more = page.has_more && page.data.length > 0;
      } while (more && read.length < wanted);
      this.entries = read;
      this.more = more;
      this.status = 'ready';
    } catch (e) {
      this.problem = errorMessage(e);
      if (!this.entries.length) this.status = 'error';
    } finally {
      this.busy = false;
    }
    if (this.#stale) await this.refresh();
  }

  /** Applies the response to a change, before its event arrives. */
  put(schedule: Schedule): void {
    this.entries = this.entries.map((s) => (s.id === schedule.id ? schedule : s));
  }
  drop(id: string): void {
    this.entries = this.entries.filter((s) => s.id !== id);
  }
  onEvent(e: ServerEvent): void {
    if (e.type === 'schedule.created' || e.type === 'schedule.updated' || e.type === 'schedule.deleted')
      void this.refresh();
  }
}
