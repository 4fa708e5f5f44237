import { SvelteMap } from 'svelte/reactivity';
import type { Task } from '../api/types';

const KEEP = 600;
export const isActive = (t: Task): boolean => t.status === 'queued' || t.status === 'running';
/** Tasks of other kinds are not shown, and a link of a chain is shown below its message until it starts. */
const isShown = (t: Task): boolean =>
  (t.kind === 'reply' || t.kind === 'resolve') && !(t.after_task_id && !t.started_at);

/** The fork of a task or message, else its thread. */
export const placeOf = <T extends string | null>(x: { thread_id: T; fork_id: string | null }): string | T =>
  x.fork_id ?? x.thread_id;

/** Tasks of agents. Ended tasks are dropped, oldest first, when there are many. */
export class Tasks {
  readonly map = new SvelteMap<string, Task>();
  readonly active = $derived([...this.map.values()].filter((t) => isActive(t) && isShown(t)));
  #fetch: (id: string) => Promise<Task>;
  #asked = new Set<string>();

  constructor(fetch: (id: string) => Promise<Task>) {
    this.#fetch = fetch;
  }

  load(active: Task[]): void {
    this.map.clear();
    this.#asked.clear();
    for (const t of active) this.map.set(t.id, t);
  }
  put(task: Task): void {
    this.map.set(task.id, task);
    if (this.map.size <= KEEP) return;
    for (const [id, t] of this.map) {
      if (this.map.size <= KEEP * 0.8) return;
      if (!isActive(t)) this.map.delete(id);
    }
  }
  drop(which: (task: Task) => boolean): void {
    for (const [id, t] of this.map) {
      if (!which(t)) continue;
      this.map.delete(id);
      this.#asked.delete(id);
    }
  }
  /**
   * Stores a task from a list or a response, which may be older than the events: it can add and end tasks,
   * but never revert them.
   */
  learn(task: Task): void {
    const old = this.map.get(task.id);
    if (!old || (isActive(old) && !isActive(task))) this.put(task);
  }
  /** Records that the reply of a task has started. */
  writes(id: string, message: string): void {
    const t = this.map.get(id);
    if (t && !t.reply_message_id) this.map.set(id, { ...t, reply_message_id: message });
  }
  /** Loads a task once, for a row on screen whose task is unknown. */
  want(id: string): void {
    if (this.map.has(id) || this.#asked.has(id)) return;
    this.#asked.add(id);
    this.#fetch(id).then(
      (t) => this.learn(t),
      () => undefined, // no longer available: the row is shown without it
    );
  }
  /** Tasks of a thread's main line, or of a fork. */
  inPlace(place: string): Task[] {
    return [...this.map.values()]
      .filter((t) => isShown(t) && placeOf(t) === place)
      .sort((a, b) =>
        a.queued_at < b.queued_at ? -1 : a.queued_at > b.queued_at ? 1 : a.id < b.id ? -1 : 1,
      );
  }
  /** Newest failed reply in a thread's main line or fork, unless a retry has completed or is in progress. */
  failedIn(place: string): Task | undefined {
    const replies = this.inPlace(place).filter((t) => t.kind === 'reply' && !t.parent_task_id);
    const byId = new Map(replies.map((t) => [t.id, t]));
    const settled = new Set<string>();
    for (const t of replies) {
      if (t.status === 'failed') continue;
      for (let id = t.retry_of; id && !settled.has(id); id = byId.get(id)?.retry_of ?? null) settled.add(id);
    }
    return replies.findLast((t) => t.status === 'failed' && !settled.has(t.id));
  }
  /** Root tasks of the active runs in a thread. */
  runsIn(thread: string): Task[] {
    return [...this.map.values()].filter(
      (t) => t.kind === 'workflow' && t.thread_id === thread && isActive(t),
    );
  }
  /** True if the reply waits for a summary: a pass that it started or took over. */
  summarizesFor(reply: Task): boolean {
    const waits = (t: Task) =>
      t.parent_task_id === reply.id || (t.started_at ?? '') > (reply.started_at ?? '\uffff');
    return [...this.map.values()].some(
      (t) => t.kind === 'compact' && t.status === 'running' && placeOf(t) === placeOf(reply) && waits(t),
    );
  }
  isBusy(agent: string): boolean {
    return this.active.some((t) => t.agent_id === agent && t.wait_reason !== 'approval');
  }
}
