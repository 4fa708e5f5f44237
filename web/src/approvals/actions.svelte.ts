import { untrack } from 'svelte';
import { SvelteMap, SvelteSet } from 'svelte/reactivity';
import {
  ActionsApi,
  type Action,
  type Grant,
  type Need,
  type Settlement,
  type Waiting,
} from '../api/actions';
import { CodeApi } from '../api/code';
import type { DroppableFrame, ServerEvent } from '../api/events';
import { errorMessage } from '../api/problem';
import { TaskTreesApi } from '../api/task-trees';
import { ToolsApi } from '../api/tools';
import type { Task } from '../api/types';
import { visible } from '../chains/trees';
import { waitingText } from '../chains/words';
import { Code, waitsForRunner } from '../code/code.svelte';
import { outsideComponents } from '../lib/outside-components.svelte';
import type { Ui } from '../state/ui.svelte';
import { isActive } from '../state/tasks.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';
import { FileReads } from './file-reads.svelte';
import { doingText, isOpen, isQuestion, isRunning, progressOf, waitsFor } from './words';

/** Maximum number of known actions; ended ones are dropped, oldest first. */
const KEEP = 2000;

/**
 * Tool calls, and the decisions that wait for the user. All of them come from the server; a failed request
 * changes nothing.
 */
export class Actions {
  readonly map = new SvelteMap<string, Action>();
  /** Null until loaded. */
  waiting = $state.raw<Waiting | null>(null);
  /** Reason why `waiting` could not be loaded. */
  problem = $state('');
  /** Actions that waited for a decision while this page was open. They stay on screen with the decision. */
  readonly watched = new SvelteSet<string>();
  /** Titles of registered servers, once they are known. */
  titles = $state.raw<ReadonlyMap<string, string> | null>(null);
  /** Actions that the user can decide or settle, oldest first. */
  readonly mine: Action[] = $derived.by(() =>
    (this.waiting?.actions ?? []).map((a) => this.map.get(a.id) ?? a).filter(isOpen),
  );
  /** Number of decisions to make and of drafts to review. */
  readonly count = $derived(this.mine.length + (this.waiting?.drafts.length ?? 0));
  /** Trigger messages of delegated tasks. */
  readonly delegated: ReadonlySet<string | null> = $derived.by(() => {
    const passedOn = [...this.#ws.tasks.map.values()].filter((t) => t.kind === 'delegate');
    return new Set(passedOn.map((t) => t.trigger_message_id));
  });
  /** Sessions of agents in repositories. */
  readonly code: Code;
  readonly #reads: FileReads;
  readonly #mineIds = $derived(new Set(this.mine.map((a) => a.id)));

  #ws: WorkspaceState;
  #api: ActionsApi;
  #announce: (text: string) => void;
  #tasks = new SvelteMap<string, string[]>();
  #asked = new SvelteSet<string>();
  #failed = new SvelteMap<string, string>();
  #busy = false;
  #again = false;
  #stopped = false;
  #cleanups: (() => void)[];

  constructor(ws: WorkspaceState, announce: (text: string) => void) {
    this.#ws = ws;
    this.#api = ws.api.part(ActionsApi);
    this.#announce = announce;
    this.code = new Code(ws);
    this.#reads = new FileReads(ws);
    this.#cleanups = [
      ws.onEvent((e) => this.#onEvent(e)),
      $effect.root(() => {
        // The state was loaded again, or the connection is back.
        $effect(() => {
          void ws.outcomes.starts;
          if (!ws.connection.reachesServer) return;
          untrack(() => {
            this.#asked.clear();
            this.code.restart();
            void this.#loadOpen();
            void this.refresh();
          });
        });
        // Chips of tasks that wait for a runner name it.
        $effect(() => {
          void ws.outcomes.starts;
          const threads = ws.tasks.active.filter(waitsForRunner).map((t) => t.thread_id);
          untrack(() => threads.forEach((thread) => this.code.want(thread)));
        });
      }),
    ];
  }
  dispose(): void {
    this.#stopped = true;
    for (const cleanup of this.#cleanups) cleanup();
  }

  // --- reading ---

  has(task: string): boolean {
    return this.#tasks.has(task) || this.code.turns.has(task);
  }
  /** Known actions of a task, in the order of its calls. */
  ofTask(task: string): Action[] {
    const ids = this.#tasks.get(task) ?? [];
    return ids.flatMap((id) => this.map.get(id) ?? []).sort((a, b) => a.round - b.round || a.call - b.call);
  }
  isMine(a: Action): boolean {
    return this.#mineIds.has(a.id);
  }
  /** True once all actions of the task are loaded or requested. */
  isAsked(task: string): boolean {
    return this.#asked.has(task);
  }
  /** Reason that the actions of a task could not be loaded; blank if they could. */
  problemOf(task: string): string {
    return this.#failed.get(task) ?? '';
  }
  /**
   * Text of the chip while a call runs, or while it waits for files or others; null if the task's own text suffices.
   */
  chip(t: Task, now = Date.now()): string | null {
    if (!isActive(t)) return null;
    const all = this.ofTask(t.id);
    if (t.status === 'running') {
      // An agent in a repository goes on while it waits for an answer.
      if (all.some((a) => isQuestion(a) && isOpen(a) && this.isMine(a))) return 'Waiting for your answer';
      const running = all.findLast(isRunning);
      return running ? doingText(running) : (this.code.chip(t, now) ?? this.#reads.chip(t));
    }
    if (waitsForRunner(t)) return this.code.chip(t, now);
    const open = all.filter(isOpen);
    const own = open.find((a) => this.isMine(a));
    if (own?.state === 'waiting')
      return isQuestion(own) ? 'Waiting for your answer' : 'Waiting for your approval';
    if (own) return 'Waiting for you';
    const [first] = open;
    if (first) return `Waiting for ${waitsFor(first, this.nameOf)}`;
    if (t.wait_reason !== 'children') return null;
    const asked = [...this.#ws.tasks.map.values()]
      .filter((x) => x.parent_task_id === t.id && x.kind === 'delegate' && isActive(x))
      .sort((a, b) => (a.id < b.id ? -1 : 1));
    return waitingText(asked, (agent) => this.#ws.people.agentName(agent), now);
  }
  readonly nameOf = (user: string | null): string => this.#ws.people.userName(user);

  // --- loading ---

  /** Loads all actions of a task, once. */
  want(task: string): void {
    if (this.#asked.has(task)) return;
    this.#asked.add(task);
    this.#failed.delete(task);
    this.#api.ofTask(task).then(
      (found) => found.forEach((a) => this.#learn(a)),
      (e: unknown) => this.#failed.set(task, errorMessage(e)),
    );
  }
  retry(task: string): void {
    this.#asked.delete(task);
    this.want(task);
  }
  /** Loads the tasks that a task delegated, unless some of them are known. */
  async wantWork(t: Task): Promise<void> {
    if (this.delegated.has(t.trigger_message_id)) return;
    try {
      this.#ws.learnTasks(visible(await this.#ws.api.part(TaskTreesApi).get(t.id)));
    } catch {
      return; // the steps of the reply show the delegations, too
    }
  }
  /** Loads all actions that wait for a decision, for the chips of parked tasks. */
  async #loadOpen(): Promise<void> {
    try {
      for (const a of await this.#api.open()) this.#learn(a);
    } catch {
      return; // without it, chips only show that a task waits
    }
  }
  /** Loads the titles of servers, for the cards. Without a title, a card shows the server's label. */
  async wantTitles(): Promise<void> {
    if (this.titles) return;
    this.titles = new Map();
    try {
      const tools = await this.#ws.api.part(ToolsApi).all();
      this.titles = new Map(tools.map((tool) => [tool.id, tool.title]));
    } catch {
      this.titles = null; // the next card tries again
    }
  }
  /** Loads what waits for the user. A change during the request makes its response obsolete. */
  async refresh(): Promise<void> {
    if (this.#busy) {
      this.#again = true;
      return;
    }
    this.#busy = true;
    try {
      do {
        this.#again = false;
        const waiting = await this.#api.waiting();
        if (!this.#again) this.#take(waiting);
      } while (this.#again && !this.#stopped);
      this.problem = '';
    } catch (e) {
      this.problem = errorMessage(e);
    } finally {
      this.#busy = false;
    }
  }
  #take(waiting: Waiting): void {
    const known = new Set(this.waiting?.actions.map((a) => a.id));
    const drafts = new Set(this.waiting?.drafts.map((d) => d.id));
    const isDrafted = this.waiting !== null && waiting.drafts.some((d) => !drafts.has(d.id));
    for (const a of waiting.actions) this.#learn(a);
    this.waiting = waiting;
    if (isDrafted) this.#announce('A draft is ready to review');
    const [first, ...others] = waiting.actions.filter((a) => !known.has(a.id));
    if (!first) return;
    const need =
      first.state === 'unknown'
        ? 'needs to know what happened'
        : isQuestion(first)
          ? 'has a question for you'
          : 'needs your approval';
    this.#announce(
      others.length
        ? `${others.length + 1} actions are waiting for you`
        : `${first.kind === 'approval' ? 'A workflow' : this.#ws.people.agentName(first.agent_id)} ${need}`,
    );
  }

  // --- changes ---

  async approve(a: Action, term: 'hour' | null = null): Promise<void> {
    await this.#decide(a, this.#api.approve(a, term));
  }
  async deny(a: Action, note: string): Promise<void> {
    await this.#decide(a, this.#api.deny(a, note.trim()));
  }
  /** Answers a question; `deny` declines it. */
  async answer(a: Action, value: unknown): Promise<void> {
    await this.#decide(a, this.#ws.api.part(CodeApi).answer(a.id, value));
  }
  async settle(a: Action, outcome: Settlement): Promise<void> {
    await this.#decide(a, this.#api.settle(a.id, outcome));
  }
  /**
   * Rejects with the server's error after reloading the action, because somebody else may have decided about
   * it.
   */
  async #decide(a: Action, request: Promise<Action>): Promise<void> {
    try {
      this.#learn(await request);
    } catch (e) {
      await this.#api.get(a.id).then(
        (now) => this.#learn(now),
        () => undefined, // the error is shown
      );
      void this.refresh();
      throw e;
    }
    if (this.waiting)
      this.waiting = { ...this.waiting, actions: this.waiting.actions.filter((x) => x.id !== a.id) };
    void this.refresh();
  }
  async revoke(grant: Grant): Promise<void> {
    await this.#api.revoke(grant.id);
    if (this.waiting)
      this.waiting = { ...this.waiting, grants: this.waiting.grants.filter((g) => g.id !== grant.id) };
    void this.refresh();
  }

  onFrame(frame: DroppableFrame): void {
    this.code.onFrame(frame);
  }
  #onEvent(e: ServerEvent): void {
    this.code.onEvent(e);
    this.#reads.onEvent(e);
    switch (e.type) {
      case 'action.requested':
      case 'action.updated': {
        const { action } = e.data;
        const wasOpen = this.map.get(action.id);
        this.#learnEvent(action);
        const changes = isOpen(action) || (wasOpen && isOpen(wasOpen));
        if ((changes && this.#canConcern(action)) || this.#mineIds.has(action.id)) void this.refresh();
        return;
      }
      case 'tool.updated':
        if (this.titles) {
          this.titles = null;
          void this.wantTitles();
        }
        return void this.refresh();
      case 'fork.updated': {
        const { fork } = e.data;
        const state = fork.collaboration?.state;
        if (state && state !== 'running' && fork.created_by === this.#ws.myId) void this.refresh();
        return;
      }
      case 'budget.updated':
      case 'member.updated':
      case 'channel.member_added':
      case 'channel.member_removed':
        return void this.refresh();
      case 'schedule.updated':
        if (e.data.schedule.status === 'paused' || this.waiting?.paused.length) void this.refresh();
        return;
      case 'workflow.updated':
        if (e.data.workflow.paused_reason || this.waiting?.paused.length) void this.refresh();
        return;
      case 'schedule.deleted':
      case 'workflow.archived':
        if (this.waiting?.paused.length) void this.refresh();
        return;
      case 'message.deleted':
        // The server has removed arguments that contain the message's text.
        if (this.mine.length) void this.refresh();
    }
  }
  /**
   * False if the user certainly cannot decide about the action. Admins can decide about any action that has
   * waited for a long time.
   */
  #canConcern(a: Action): boolean {
    const me = this.#ws.myId;
    const asks = (need: Need) => need.who === 'any_member' || need.user_id === me;
    return a.requested_by === me || this.#ws.people.isAdmin || a.needs.some(asks);
  }
  /** Events omit texts, so known texts are kept. */
  #learnEvent(a: Action): void {
    const old = this.map.get(a.id);
    const kept = old && {
      arguments: old.arguments,
      arguments_hash: old.arguments_hash,
      result: a.result ?? old.result,
      sources: old.sources,
    };
    if (old?.state !== a.state && !isOpen(a) && !isRunning(a)) this.#asked.delete(a.task_id);
    this.#learn({ ...a, ...kept });
  }
  #learn(a: Action): void {
    const old = this.map.get(a.id);
    if (old && progressOf(old) > progressOf(a)) return;
    this.map.set(a.id, a);
    if (isOpen(a)) this.watched.add(a.id);
    if (old) return;
    this.#tasks.set(a.task_id, [...(this.#tasks.get(a.task_id) ?? []), a.id]);
    this.#drop();
  }
  #drop(): void {
    if (this.map.size <= KEEP) return;
    for (const [id, a] of this.map) {
      if (this.map.size <= KEEP * 0.8) return;
      if (isOpen(a) || isRunning(a)) continue;
      this.map.delete(id);
      const rest = (this.#tasks.get(a.task_id) ?? []).filter((x) => x !== id);
      if (rest.length) this.#tasks.set(a.task_id, rest);
      else this.#tasks.delete(a.task_id);
      this.#asked.delete(a.task_id);
    }
  }
}

/** Actions of a workspace, created after startup. */
export const actionsOf = (ws: WorkspaceState, ui: Pick<Ui, 'announce'>): Actions =>
  untrack(() => (ws.actions ??= outsideComponents(() => new Actions(ws, (text) => ui.announce(text)))));
