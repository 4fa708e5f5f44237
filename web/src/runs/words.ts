import type { Action } from '../api/actions';
import type { Definition, Run, RunStatus, RunStep, StepState, WorkflowStep } from '../api/runs';
import { inSentence, isOpen as isOpenAction, waitsFor, type NameOf } from '../approvals/words';
import { seconds } from '../lib/time';
import { stepName, type Names } from '../workflows/words';

export const STATUSES: Record<RunStatus, string> = {
  queued: 'Queued',
  running: 'Running',
  waiting: 'Waiting',
  completed: 'Completed',
  failed: 'Failed',
  cancelled: 'Stopped',
};
export const STEP_STATES: Record<StepState, string> = {
  pending: 'Not started',
  running: 'Running',
  waiting: 'Waiting',
  completed: 'Done',
  failed: 'Failed',
  skipped: 'Skipped',
  cancelled: 'Stopped',
};
export const KINDS: Record<RunStep['kind'], string> = {
  agent: 'Agent',
  fork: 'Deep dive',
  approval: 'Approval',
  condition: 'Condition',
  parallel: 'Branches',
  output: 'Message',
};
/** Cause of a run, besides the person for whom it acts. */
export const CAUSES: Record<Run['cause']['type'], string> = {
  manual: '',
  message: 'Started by a message',
  schedule: 'Started by a schedule',
};

/** ID of the run with this root task: both have the same UUID. */
export const runOf = (root: string): string => root.replace(/^task_/, 'run_');
export const isStatus = (text: string): text is RunStatus => Object.hasOwn(STATUSES, text);
export const isActive = ({ status }: Pick<Run, 'status'>): boolean =>
  status === 'queued' || status === 'running' || status === 'waiting';
const isOpen = ({ state }: RunStep): boolean => state === 'running' || state === 'waiting';

/** Steps in the order of a run: those of branches follow their `parallel` step. */
const flat = (steps: WorkflowStep[]): WorkflowStep[] =>
  steps.flatMap((s) => [s, ...(s.kind === 'parallel' ? s.branches.flatMap((branch) => flat(branch)) : [])]);

/** Names of steps as in the editor, by ID. */
export const stepNames = (
  { steps, default_agent_id }: Pick<Definition, 'steps' | 'default_agent_id'>,
  names: Names,
): ReadonlyMap<string, string> =>
  new Map(flat(steps).map((s) => [s.id, stepName(s, default_agent_id, names)]));

/** Index of the current step of a run: an open one, else the next one; -1 if there is none. */
export function currentIndex({ steps }: Pick<Run, 'steps'>): number {
  const working = steps.findIndex((s) => isOpen(s) && s.kind !== 'parallel');
  return working >= 0 ? working : steps.findIndex((s) => isOpen(s) || s.state === 'pending');
}
/** "review · step 3 of 4 · Approve the text · waits for Ada". `waits` names whom the step waits for. */
export function lineText(
  run: Run,
  workflow: string,
  names: ReadonlyMap<string, string>,
  waits: (step: RunStep) => string,
): string {
  const index = currentIndex(run);
  const step = run.steps[index];
  if (!step) return workflow;
  const who = step.state === 'waiting' ? waits(step) : '';
  const parts = [`step ${index + 1} of ${run.steps.length}`, names.get(step.id) ?? step.id];
  return [workflow, ...parts, ...(who ? [`waits for ${who}`] : [])].join(' · ');
}
/** Whom a step waits for: "Ada", "a result"; blank while the action is not known. */
export function waitsForText(step: RunStep, action: Action | undefined, nameOf: NameOf): string {
  if (step.fork_id) return 'a result';
  return action && isOpenAction(action) ? inSentence(waitsFor(action, nameOf)) : '';
}
/** The open step for which a person has to resolve a deep dive. */
export const forkToResolve = ({ steps }: Pick<Run, 'steps'>): string | null =>
  steps.find((s) => s.state === 'waiting' && s.fork_id)?.fork_id ?? null;

/** Index of the step with which a failed run resumes: the failed one of the main list, else the next one. */
export function resumeIndex({ steps }: Pick<Run, 'steps'>, main: WorkflowStep[]): number {
  const ids = new Set(main.map((s) => s.id));
  const last = steps.findLastIndex((s) => ids.has(s.id) && s.state !== 'pending');
  const step = steps[last];
  return step && (step.state === 'failed' || isOpen(step))
    ? last
    : steps.findIndex((s) => s.state === 'pending');
}

/** "14.0 s", "12 min 5 s", "3 h 20 min", "2 d 4 h". */
export function durationText(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  const hours = Math.floor(minutes / 60);
  if (!hours) return seconds(ms);
  return hours < 24 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}
/** Duration until the end, or until now; blank before the start. */
export const tookText = (start: string | null, end: string | null, now: number): string =>
  start ? durationText(Math.max(0, (end ? Date.parse(end) : now) - Date.parse(start))) : '';
