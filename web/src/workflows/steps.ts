/** Editing of steps. Steps are found by their IDs, so that jumps and outputs survive moving. */
import type { Step, StepKind, StepOf } from '../api/workflows';

/** Target of a jump to the end of a list. */
export const END = 'end';
export const STEPS_MAX = 30;
export const BRANCHES_MIN = 2;
export const BRANCHES_MAX = 5;
export const BRANCH_STEPS_MAX = 6;
const ID_STEM_MAX = 28;
const DAY_S = 86_400;
const WEEK_S = 7 * DAY_S;

/** A branch of a `parallel` step. */
export interface Branch {
  /** ID of the `parallel` step. */
  of: string;
  index: number;
}
/** A step, and its place in the workflow. */
export interface PlacedStep {
  step: Step;
  /** Position as in runs, where steps of branches count, too. */
  number: number;
  /** Path as in the server's errors: `steps[3].branches[0][1]`. */
  path: string;
  list: readonly Step[];
  /** Place in `list`. */
  index: number;
  /** Branch that contains the steps of `list`; null for the steps of the workflow. */
  branch: Branch | null;
  /** IDs of the steps whose outputs this step's texts can use. */
  earlier: readonly string[];
}

const branchesOf = (step: Step): Step[][] => (step.kind === 'parallel' ? step.branches : []);
const idsOf = (step: Step): string[] => [step.id, ...branchesOf(step).flat().flatMap(idsOf)];

/** All steps in the workflow's order: those of branches follow their `parallel` step. */
export function placedSteps(steps: readonly Step[]): PlacedStep[] {
  const all: PlacedStep[] = [];
  const add = (list: readonly Step[], path: string, branch: Branch | null, before: readonly string[]) => {
    let earlier = before;
    for (const [index, step] of list.entries()) {
      const at = `${path}[${index}]`;
      all.push({ step, number: all.length + 1, path: at, list, index, branch, earlier });
      for (const [n, inner] of branchesOf(step).entries())
        add(inner, `${at}.branches[${n}]`, { of: step.id, index: n }, earlier);
      earlier = [...earlier, ...idsOf(step)];
    }
  };
  add(steps, 'steps', null, []);
  return all;
}

/** Changes the list that contains the step, and returns all steps. */
function changeList(steps: Step[], id: string, change: (list: Step[], index: number) => Step[]): Step[] {
  const index = steps.findIndex((s) => s.id === id);
  if (index >= 0) return change(steps, index);
  return steps.map((s) =>
    s.kind === 'parallel' ? { ...s, branches: s.branches.map((b) => changeList(b, id, change)) } : s,
  );
}

/** Replaces the step with the same ID. */
export const putStep = (steps: Step[], step: Step): Step[] =>
  changeList(steps, step.id, (list) => list.map((s) => (s.id === step.id ? step : s)));

/** Moves a step within its list; null if it is already at that end. */
export function moveStep(steps: Step[], id: string, by: 1 | -1): Step[] | null {
  let isMoved = false;
  const moved = changeList(steps, id, (list, index) => {
    const other = list[index + by];
    if (!other) return list;
    isMoved = true;
    const next = [...list];
    next[index] = other;
    next[index + by] = list[index]!;
    return next;
  });
  return isMoved ? moved : null;
}

/** The step with its jumps to `from` redirected to `to`. */
function withJump(step: Step, from: string, to: string): Step {
  const of = (target: string) => (target === from ? to : target);
  if (step.kind === 'condition') return { ...step, then: of(step.then), else: of(step.else) };
  if (step.kind === 'approval') return { ...step, else: step.else && of(step.else) };
  return step;
}
/** Removes a step; jumps to it lead to the one after it. */
export const removeStep = (steps: Step[], id: string): Step[] =>
  changeList(steps, id, (list, index) => {
    const next = list[index + 1]?.id ?? END;
    return list.filter((s) => s.id !== id).map((s) => withJump(s, id, next));
  });

/** Adds a step at the end of the workflow or of a branch. */
export function addStep(steps: Step[], branch: Branch | null, step: Step): Step[] {
  if (!branch) return [...steps, step];
  return steps.map((s) =>
    s.kind === 'parallel' && s.id === branch.of
      ? { ...s, branches: s.branches.map((b, n) => (n === branch.index ? [...b, step] : b)) }
      : s,
  );
}

/** IDs that new steps cannot have. */
export const takenIds = (steps: readonly Step[]): Set<string> => new Set([END, ...steps.flatMap(idsOf)]);
/** A free ID, which is taken from then on. */
function freeId(wanted: string, taken: Set<string>): string {
  const stem = wanted.replace(/_\d+$/, '').slice(0, ID_STEM_MAX);
  let id = stem;
  for (let n = 2; taken.has(id); n++) id = `${stem}_${n}`;
  taken.add(id);
  return id;
}

const OUTPUT = /\{\{\s*steps\.([a-z][a-z0-9_]*)\.output\s*\}\}/g;
/** The variable for the output of a step. */
export const outputOf = (id: string): string => `{{steps.${id}.output}}`;

/** A copy with new IDs. Its inner jumps and outputs refer to the copy. */
function copyOf(step: Step, taken: Set<string>): Step {
  const ids = new Map(idsOf(step).map((id) => [id, freeId(id, taken)]));
  const of = (id: string) => ids.get(id) ?? id;
  return JSON.parse(JSON.stringify(step), (key, value: unknown) => {
    if (typeof value !== 'string') return value;
    if (key === 'id' || key === 'then' || key === 'else') return of(value);
    return value.replace(OUTPUT, (_, id: string) => outputOf(of(id)));
  }) as Step;
}
/** Inserts a copy after a step, and returns the copy's ID. */
export function duplicateStep(steps: Step[], id: string): { steps: Step[]; id: string } {
  let copied = id;
  const changed = changeList(steps, id, (list, index) => {
    const copy = copyOf(list[index]!, takenIds(steps));
    copied = copy.id;
    return [...list.slice(0, index + 1), copy, ...list.slice(index + 1)];
  });
  return { steps: changed, id: copied };
}

/** A new step, whose IDs are added to `taken`. */
export function blankStep(kind: StepKind, taken: Set<string>): Step {
  const of = (id: string) => ({ id: freeId(id, taken), title: null, on_error: 'stop' as const });
  switch (kind) {
    case 'agent':
      return { ...of('ask'), kind, agent_id: null, prompt: '', post: false };
    case 'fork':
      return {
        ...of('dive'),
        kind,
        agent_ids: [],
        goal: '',
        turns_max: null,
        close_after_s: null,
        publish: 'person',
        wait_s: WEEK_S,
      };
    case 'approval':
      return {
        ...of('approve'),
        kind,
        text: '',
        who: 'requester',
        user_id: null,
        timeout_s: DAY_S,
        else: null,
      };
    case 'condition':
      return { ...of('check'), kind, value: '', op: 'contains', with: '', then: END, else: END };
    case 'parallel': {
      const branch = () => [blankStep('agent', taken)];
      return { ...of('together'), kind, branches: [branch(), branch()] };
    }
    case 'output':
      return { ...of('post'), kind, content: '', channel_id: null };
  }
}

/** The field of a step with variables, and its text. */
export function templateOf(step: Step): { field: string; text: string } | null {
  switch (step.kind) {
    case 'agent':
      return { field: 'prompt', text: step.prompt };
    case 'fork':
      return { field: 'goal', text: step.goal };
    case 'approval':
      return { field: 'text', text: step.text };
    case 'condition':
      return { field: 'value', text: step.value };
    case 'output':
      return { field: 'content', text: step.content };
    case 'parallel':
      return null;
  }
}
/** IDs of the steps whose outputs a text uses. */
export const outputsIn = (text: string): string[] => [...text.matchAll(OUTPUT)].map(([, id]) => id!);

/** Jumps of a step, with their fields. */
export function jumpsOf(step: Step): { field: 'then' | 'else'; target: string }[] {
  if (step.kind === 'condition')
    return [
      { field: 'then', target: step.then },
      { field: 'else', target: step.else },
    ];
  return step.kind === 'approval' && step.else !== null ? [{ field: 'else', target: step.else }] : [];
}
/** Agents that a step names, with their field. */
export function agentsOf(step: Step): { field: string; ids: string[] } {
  if (step.kind === 'fork') return { field: 'agent_ids', ids: step.agent_ids };
  return { field: 'agent_id', ids: step.kind === 'agent' && step.agent_id ? [step.agent_id] : [] };
}

/** True if a step's text uses the input of the person who starts the run. */
export const takesInput = (steps: readonly Step[]): boolean =>
  placedSteps(steps).some(({ step }) => /\{\{\s*input\s*\}\}/.test(templateOf(step)?.text ?? ''));
/** True if a run needs a conversation: a step posts in it, or asks there before it posts elsewhere. */
export const posts = (steps: readonly Step[]): boolean =>
  placedSteps(steps).some(({ step }) => {
    if (step.kind === 'agent') return step.post;
    return ['output', 'fork', 'approval'].includes(step.kind);
  });

/** Adds a branch to a `parallel` step. */
export const addBranch = (step: StepOf<'parallel'>, taken: Set<string>): StepOf<'parallel'> => ({
  ...step,
  branches: [...step.branches, [blankStep('agent', taken)]],
});
export const removeBranch = (step: StepOf<'parallel'>, index: number): StepOf<'parallel'> => ({
  ...step,
  branches: step.branches.filter((_, n) => n !== index),
});
