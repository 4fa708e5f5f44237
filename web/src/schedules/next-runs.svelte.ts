import { ApiError } from '../api/problem';
import type { NextRun, SchedulesApi } from '../api/schedules';
import { problemOf, type FieldProblem } from './schedule-edit.svelte';

/** Pause in typing before a request. */
const AFTER_MS = 300;

/** Preview of the next runs for times that are being edited. */
export class NextRuns {
  runs = $state.raw<NextRun[]>([]);
  problem = $state.raw<FieldProblem | null>(null);
  #api: Pick<SchedulesApi, 'preview'>;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #run = 0;

  constructor(api: Pick<SchedulesApi, 'preview'>) {
    this.#api = api;
  }
  ask(cron: string, timezone: string): void {
    this.dispose();
    if (!cron.trim()) {
      this.runs = [];
      this.problem = null;
      return;
    }
    this.#timer = setTimeout(() => void this.#load(this.#run, cron, timezone), AFTER_MS);
  }
  async #load(run: number, cron: string, timezone: string): Promise<void> {
    try {
      const runs = await this.#api.preview(cron, timezone);
      if (run !== this.#run) return;
      this.runs = runs;
      this.problem = null;
    } catch (e) {
      if (run !== this.#run) return;
      const { field, text } = problemOf(e);
      const isRefused = e instanceof ApiError && e.status === 422;
      this.runs = [];
      this.problem = { field: isRefused && field !== 'timezone' ? 'cron' : field, text };
    }
  }
  /** Cancels a request that is pending or in flight. */
  dispose(): void {
    clearTimeout(this.#timer);
    this.#run++;
  }
}
