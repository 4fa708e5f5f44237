import { ApiError, Conflict, errorMessage } from '../api/problem';
import type { Step, StepKind, Workflow, WorkflowsApi } from '../api/workflows';
import { same } from '../lib/merge';
import type { EditStorage } from '../state/edit-storage';
import { SharedEdit, type KeptEdit } from '../state/shared-edit.svelte';
import {
  addStep,
  blankStep,
  duplicateStep,
  moveStep,
  placedSteps,
  putStep,
  removeStep,
  takenIds,
  type Branch,
} from './steps';
import {
  changedIn,
  fieldsOf,
  keyOf,
  patchOf,
  pick,
  problemsIn,
  stepKey,
  type WorkflowFields,
} from './workflow-fields';

export type EditApi = Pick<WorkflowsApi, 'create' | 'patch'>;

/**
 * A new workflow, or one that is being edited. Changes are saved only over the version that they started from. If someone else
 * saved first, `theirs` is the newer version, and the person decides.
 */
export class WorkflowEdit extends SharedEdit<WorkflowFields> {
  /** Newest known version of the workflow; null for a new one. */
  workflow = $state.raw<Workflow | null>(null);
  theirs = $state.raw<Workflow | null>(null);
  /** True if the two versions are compared; until then `theirs` is only announced. */
  comparing = $state(false);
  /** Incremented when the fields change other than by typing. */
  round = $state(0);
  busy = $state(false);
  /** Error of the last save, and the key of its field; null for none. */
  problem = $state.raw<{ key: string | null; text: string } | null>(null);
  #api: EditApi;

  readonly dirty: boolean = $derived(this.isChanged);
  readonly placed = $derived(placedSteps(this.fields.steps));
  readonly #problems = $derived(problemsIn(this.fields));

  constructor(api: EditApi, from: Workflow | WorkflowFields, storage: EditStorage<KeptEdit<WorkflowFields>>) {
    super(storage);
    this.#api = api;
    this.#begin(from);
    this.restore();
  }
  protected override received(): void {
    this.round++;
    this.#compare();
  }
  #begin(from: Workflow | WorkflowFields): void {
    if ('id' in from) {
      this.workflow = from;
      this.version = from.version;
    }
    this.start = this.fields = fieldsOf(from);
    this.#compared();
    this.restored = false;
    this.problem = null;
    this.round++;
  }
  #compared(): void {
    this.theirs = null;
    this.comparing = false;
  }
  set(more: Partial<WorkflowFields>): void {
    this.fields = { ...this.fields, ...more };
    const [head = ''] = this.problem?.key?.split('.') ?? [''];
    if (head in more) this.problem = null;
    this.keepSoon();
  }

  // --- steps ---

  put(step: Step): void {
    this.set({ steps: putStep(this.fields.steps, step) });
  }
  /** Adds a blank step and returns its ID. */
  add(kind: StepKind, branch: Branch | null): string {
    const step = blankStep(kind, takenIds(this.fields.steps));
    this.set({ steps: addStep(this.fields.steps, branch, step) });
    return step.id;
  }
  /** Copies a step and returns the ID of the copy. */
  duplicate(id: string): string {
    const copied = duplicateStep(this.fields.steps, id);
    this.set({ steps: copied.steps });
    return copied.id;
  }
  /** Moves a step. Returns false if it is already at that end of its list. */
  move(id: string, by: 1 | -1): boolean {
    const steps = moveStep(this.fields.steps, id, by);
    if (steps) this.set({ steps });
    return steps !== null;
  }
  remove(id: string): void {
    this.set({ steps: removeStep(this.fields.steps, id) });
  }

  // --- errors ---

  /** Error of the field with this key; blank for none. */
  error(key: string): string {
    return this.#problems.get(key) ?? (this.problem?.key === key ? this.problem.text : '');
  }
  stepError(step: Step, field: string): string {
    return this.error(stepKey(step.id, field));
  }

  // --- saving ---

  /** Handles a version that someone else saved. */
  newer(workflow: Workflow): void {
    const known = this.workflow;
    if (workflow.id !== known?.id || workflow.version <= known.version || this.busy) return;
    this.workflow = workflow;
    this.#compare();
  }
  /** Adopts the newest version if it includes all of the changes; otherwise, the user decides. */
  #compare(): void {
    const { workflow } = this;
    if (!workflow || workflow.version <= this.version) return this.#compared();
    const fields = fieldsOf(workflow);
    if (!this.isMissingIn(fields)) {
      this.#begin(workflow);
      this.keep();
    } else if (same(fields, this.start)) this.version = workflow.version;
    else this.theirs = workflow;
  }
  /** Applies the merged fields on top of the newer version. */
  rebase(fields: WorkflowFields): void {
    if (!this.theirs) return;
    this.#begin(this.theirs);
    this.fields = fields;
    this.keep();
  }
  /** Discards the changes in favor of the newest version. */
  discard(): void {
    this.#begin(this.workflow ?? this.start);
    this.keep();
  }
  /** Returns null if it was not saved: an error or `theirs` then contains the reason. */
  async save(): Promise<Workflow | null> {
    if (this.busy || this.#problems.size) return null;
    if (this.theirs) {
      this.comparing = true;
      return null;
    }
    this.busy = true;
    this.problem = null;
    const sent = this.fields;
    try {
      const saved = await this.#send().catch((e: unknown) => this.#sendAgain(e));
      if (!saved) return null;
      const typed = pick(this.fields, changedIn(sent, this.fields));
      this.#begin(saved);
      this.fields = { ...this.fields, ...typed };
      this.keep();
      return saved;
    } catch (e) {
      const param = e instanceof ApiError ? e.param : null;
      this.problem = { key: keyOf(sent.steps, param), text: errorMessage(e) };
      return null;
    } finally {
      this.busy = false;
    }
  }
  #send(): Promise<Workflow> {
    if (!this.workflow) return this.#api.create(this.fields);
    return this.#api.patch(this.workflow.id, this.version, patchOf(this.start, this.fields));
  }
  /** Handles a conflict: the person decides, unless only the state or the owner changed. */
  async #sendAgain(e: unknown): Promise<Workflow | null> {
    if (!(e instanceof Conflict)) throw e;
    const newer = e.current as Workflow;
    this.workflow = newer;
    if (same(fieldsOf(newer), this.start)) {
      this.version = newer.version;
      return this.#send();
    }
    this.theirs = newer;
    this.comparing = true;
    return null;
  }
}
