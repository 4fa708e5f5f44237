import type {
  Step,
  StepKind,
  Trigger,
  Workflow,
  WorkflowPatch,
  WorkflowRecipe,
  WorkflowRun,
} from '../api/workflows';
import { same } from '../lib/merge';
import { HANDLE } from '../state/agents-fields';
import { agentsOf, jumpsOf, outputsIn, placedSteps, templateOf } from './steps';
import { jumpProblem, outputProblem, stepsText, triggerText, type Names } from './words';

/** Fields of a workflow that the editor changes. */
export interface WorkflowFields {
  name: string;
  description: string;
  default_agent_id: string;
  agents: string[];
  on_message: Trigger | null;
  steps: Step[];
}
export type FieldKey = keyof WorkflowFields;

/** Labels of fields, in display order. */
export const LABELS: Record<FieldKey, string> = {
  name: 'Name',
  description: 'Description',
  default_agent_id: 'Posts as',
  agents: 'Agents it may use',
  on_message: 'Start on messages',
  steps: 'Steps',
};
export const FIELDS = Object.keys(LABELS) as FieldKey[];

/** Fields of a workflow, of one of its versions, or of a recipe. */
export const fieldsOf = (w: Pick<Workflow, FieldKey>): WorkflowFields => ({
  name: w.name,
  description: w.description,
  default_agent_id: w.default_agent_id,
  agents: w.agents,
  on_message: w.on_message && { ...blankTrigger(w.on_message.channel_id), ...w.on_message },
  steps: w.steps,
});
/** A recipe with the steps for which the query has a value. */
export const withChosen = (recipe: WorkflowRecipe, query: URLSearchParams): WorkflowRecipe => ({
  ...recipe,
  steps: [
    ...recipe.steps,
    ...recipe.asks_for.flatMap(({ step, field }) => {
      const value = query.get(step.id);
      return value ? [{ ...step, [field]: value }] : [];
    }),
  ],
});
export const blankTrigger = (channel: string): Trigger => ({
  channel_id: channel,
  from: 'people',
  new_threads_only: false,
  words: [],
});
export const blankFields = (agent: string): WorkflowFields => ({
  name: '',
  description: '',
  default_agent_id: agent,
  agents: [],
  on_message: null,
  steps: [],
});

export const changedIn = (before: WorkflowFields, after: WorkflowFields): FieldKey[] =>
  FIELDS.filter((k) => !same(before[k], after[k]));
export const pick = (fields: WorkflowFields, keys: FieldKey[]): Partial<WorkflowFields> =>
  Object.fromEntries(keys.map((k) => [k, fields[k]])) as Partial<WorkflowFields>;
/** Changed fields only; the steps are replaced as a whole. */
export const patchOf = (before: WorkflowFields, after: WorkflowFields): WorkflowPatch =>
  pick(after, changedIn(before, after));

/** Formats a value of a field as text. */
export function valueText(fields: WorkflowFields, field: FieldKey, names: Names): string {
  switch (field) {
    case 'default_agent_id':
      return names.agent(fields.default_agent_id);
    case 'agents':
      return fields.agents.map((id) => names.agent(id)).join(', ');
    case 'on_message':
      return triggerText(fields.on_message, names);
    case 'steps':
      return stepsText(fields.steps, fields.default_agent_id, names);
    default:
      return fields[field];
  }
}

/** Parameters of errors in fields outside of the steps. */
const PLAIN = [
  ...['name', 'description', 'default_agent_id', 'agents', 'steps'],
  ...['on_message.channel_id', 'on_message.words'],
];
const STEP_FIELDS: Record<StepKind, readonly string[]> = {
  agent: ['agent_id', 'prompt'],
  fork: ['agent_ids', 'goal', 'turns_max', 'close_after_s', 'publish', 'wait_s'],
  approval: ['text', 'who', 'user_id', 'timeout_s', 'else'],
  condition: ['value', 'op', 'with', 'then', 'else'],
  parallel: ['branches'],
  output: ['content', 'channel_id'],
};
/** Key of the errors of a step's field. */
export const stepKey = (id: string, field: string): string => `steps.${id}.${field}`;

/** Key of the field that a parameter of an error belongs to; null if no field shows it. */
export function keyOf(steps: readonly Step[], param: string | null): string | null {
  const found = /^(steps\[\d+\](?:\.branches\[\d+\]\[\d+\])?)\.(\w+)$/.exec(param ?? '');
  if (found) {
    const [, path = '', field = ''] = found;
    const step = placedSteps(steps).find((p) => p.path === path)?.step;
    if (!step) return null;
    return [...STEP_FIELDS[step.kind], 'title', 'on_error'].includes(field) ? stepKey(step.id, field) : null;
  }
  const name = (param ?? '').replace(/\[\d+\]$/, '');
  return PLAIN.includes(name) ? name : null;
}

/** Errors that are known before saving, by the keys of their fields. */
export function problemsIn(fields: WorkflowFields): Map<string, string> {
  const problems = new Map<string, string>();
  if (fields.name && !HANDLE.test(fields.name))
    problems.set('name', 'Up to 64 lowercase letters, digits, - and _, starting with a letter or digit');
  const placed = placedSteps(fields.steps);
  const pool = [fields.default_agent_id, ...fields.agents];
  for (const p of placed) {
    const at = (field: string, problem: string) =>
      problem && problems.set(stepKey(p.step.id, field), problem);
    for (const { field, target } of jumpsOf(p.step)) at(field, jumpProblem(p, target, placed));
    const template = templateOf(p.step);
    const outputs = outputsIn(template?.text ?? '').map((id) => outputProblem(p, id, placed));
    if (template) at(template.field, outputs.find(Boolean) ?? '');
    const { field, ids } = agentsOf(p.step);
    at(field, ids.every((id) => pool.includes(id)) ? '' : `Select this agent in “${LABELS.agents}” first.`);
  }
  return problems;
}

/**
 * Updates a list with a workflow from an event or a response, and keeps it sorted from oldest to newest. An
 * older state changes nothing.
 */
export function withWorkflow(list: Workflow[], changed: Workflow): Workflow[] {
  const known = list.find((w) => w.id === changed.id);
  if (!known) return [...list, changed];
  return known.version > changed.version ? list : list.map((w) => (w === known ? changed : w));
}
/** The newest run of each workflow after another run has started or changed. */
export function withRun(
  newest: ReadonlyMap<string, WorkflowRun>,
  run: WorkflowRun,
): Map<string, WorkflowRun> {
  const known = newest.get(run.workflow_id);
  const next = new Map(newest);
  // IDs sort by creation.
  return known && known.id > run.id ? next : next.set(run.workflow_id, run);
}
