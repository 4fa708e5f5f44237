import { SvelteMap } from 'svelte/reactivity';
import { CodeApi, type CodeSession, type PlanEntry, type Repository, type Step } from '../api/code';
import type { DroppableFrame, ServerEvent } from '../api/events';
import type { Task } from '../api/types';
import type { WorkspaceState } from '../state/workspace.svelte';
import { stepsIn } from './log';
import { ReviewDraft } from './review.svelte';
import { runningText, shown, waitingText } from './words';

/** Maximum number of turns whose steps are known; the oldest are dropped. */
const TURNS_MAX = 200;

/** Work of an agent in a repository, as far as it was watched. */
export interface Turn {
  steps: readonly Step[];
  plan: readonly PlanEntry[];
  /** Times at which running steps were first seen, by number. */
  seenAt: ReadonlyMap<number, number>;
}
/** The conversation and agent of a task, an action, or a session. */
interface Place {
  thread_id: string | null;
  fork_id: string | null;
  agent_id: string | null;
}

/** True if the task is queued until a runner has time for it. */
export const waitsForRunner = (t: Task): boolean => t.status === 'queued' && t.wait_reason === 'runner';

/** Sessions of agents in repositories. They come from the server; a failed request changes nothing. */
export class Code {
  readonly sessions = new SvelteMap<string, CodeSession>();
  readonly repositories = new SvelteMap<string, Repository>();
  /** Turns by task. */
  readonly turns = new SvelteMap<string, Turn>();
  readonly #reviews = new Map<string, ReviewDraft>();

  #ws: WorkspaceState;
  #api: CodeApi;
  #asked = new Set<string>();
  /** Sessions that are being loaded; true if they have changed since. */
  #loading = new Map<string, boolean>();

  constructor(ws: WorkspaceState) {
    this.#ws = ws;
    this.#api = ws.api.part(CodeApi);
  }
  /** Called when events may have been missed: everything is loaded again when it is next wanted. */
  restart(): void {
    this.#asked.clear();
  }

  // --- reading ---

  /** Newest session of a conversation and agent, in the repository with this name if one is given. */
  sessionOf(place: Place, repository?: string): CodeSession | null {
    const fits = (s: CodeSession) =>
      s.thread_id === place.thread_id &&
      s.fork_id === place.fork_id &&
      s.agent_id === place.agent_id &&
      (repository === undefined || this.repositories.get(s.repository_id)?.name === repository);
    const found = [...this.sessions.values()].filter(fits);
    return found.reduce<CodeSession | null>((last, s) => (last && last.number > s.number ? last : s), null);
  }
  /** The session whose newest push is this action. */
  sessionOfPush(action: string): CodeSession | undefined {
    return [...this.sessions.values()].find((s) => s.action_id === action);
  }
  repositoryName(session: CodeSession): string {
    return shown(this.repositories.get(session.repository_id)?.name ?? '') || 'the repository';
  }
  /** Comments on the changes of a session that are not sent yet. */
  review(session: string): ReviewDraft {
    let draft = this.#reviews.get(session);
    if (!draft) this.#reviews.set(session, (draft = new ReviewDraft()));
    return draft;
  }
  /** Text of the chip of a task that waits for a runner or works on one; null if the task's own text suffices. */
  chip(t: Task, now: number): string | null {
    const session = this.sessionOf(t);
    if (t.status === 'queued') {
      if (!waitsForRunner(t)) return null;
      if (session?.state === 'preparing') return `Preparing ${this.repositoryName(session)}`;
      return waitingText(this.repositories.get(session?.repository_id ?? '')?.runner.name, session?.ahead);
    }
    const turn = this.turns.get(t.id);
    const step = turn?.steps.findLast((one) => one.state === 'running');
    if (turn && step) return runningText(step, now - (turn.seenAt.get(step.n) ?? now));
    return session?.state === 'preparing' ? `Preparing ${this.repositoryName(session)}` : null;
  }

  // --- loading ---

  /** Loads the sessions of a thread, once. */
  want(thread: string | null): void {
    this.#once('repositories', async () => {
      const all = await this.#api.repositories();
      this.repositories.clear();
      for (const one of all) this.repositories.set(one.id, one);
    });
    if (thread)
      this.#once(thread, async () => {
        for (const one of await this.#api.sessions(thread)) this.#put(this.sessions, one);
      });
  }
  #once(key: string, load: () => Promise<void>): void {
    if (this.#asked.has(key)) return;
    this.#asked.add(key);
    load().catch(() => this.#asked.delete(key)); // the next one who wants it tries again
  }
  /** Loads a session. Changes during the request make its response obsolete. */
  async load(id: string): Promise<CodeSession> {
    let session: CodeSession;
    do {
      this.#loading.set(id, false);
      try {
        session = await this.#api.session(id);
      } catch (e) {
        this.#loading.delete(id);
        throw e;
      }
    } while (this.#loading.get(id));
    this.#loading.delete(id);
    this.#put(this.sessions, session);
    this.want(session.thread_id);
    return this.sessions.get(id) ?? session;
  }

  /** Loads the steps of a turn, which was not watched from its beginning, from its log. */
  async loadSteps(session: string, task: string): Promise<void> {
    this.#merge(task, stepsIn(await this.#api.log(session, task)), null);
  }

  // --- changes ---

  async editTexts(session: CodeSession, title: string, body: string): Promise<void> {
    this.#put(this.sessions, await this.#api.editTexts(session.id, session.version, { title, body }));
  }
  onEvent(event: ServerEvent): void {
    if (event.type === 'code_session.updated') {
      const { code_session_id: id } = event.data;
      if (this.#loading.has(id)) this.#loading.set(id, true);
      else if (this.sessions.has(id) || this.#asked.has(event.thread_id ?? ''))
        this.load(id).catch(() => this.#asked.delete(event.thread_id ?? '')); // the next one who wants it tries again
    } else if (event.type === 'repository.updated' && this.#asked.delete('repositories')) this.want(null);
  }
  onFrame(frame: DroppableFrame): void {
    if (frame.type !== 'code.step') return;
    const { task_id, steps, plan } = frame;
    if (!this.turns.has(task_id)) this.want(this.#ws.tasks.map.get(task_id)?.thread_id ?? null);
    this.#merge(task_id, steps, plan ?? null);
  }
  /** Adds steps to a turn, and sets its plan unless it is null. */
  #merge(task: string, steps: readonly Step[], plan: readonly PlanEntry[] | null): void {
    const old = this.turns.get(task);
    const now = Date.now();
    const known = new Map(old?.steps.map((step) => [step.n, step]));
    const seenAt = new Map(old?.seenAt);
    for (const step of steps) {
      // A log can be older than the frames.
      const before = known.get(step.n)?.state ?? 'running';
      if (step.state !== 'running' || before === 'running') known.set(step.n, step);
      if (!seenAt.has(step.n)) seenAt.set(step.n, now - step.ms);
    }
    const sorted = [...known.values()].sort((a, b) => a.n - b.n);
    this.turns.set(task, { steps: sorted, plan: plan ?? old?.plan ?? [], seenAt });
    if (this.turns.size > TURNS_MAX) this.turns.delete(this.turns.keys().next().value!);
  }
  #put<T extends { id: string; version: number }>(map: SvelteMap<string, T>, one: T): void {
    const old = map.get(one.id);
    if (!old || old.version <= one.version) map.set(one.id, one);
  }
}
