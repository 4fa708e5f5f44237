import type { Step, StepKind, StepOf, Trigger, WorkflowRun } from '../api/workflows';
import { plural } from '../lib/time';
import { instantText } from '../schedules/words';
import { END, jumpsOf, placedSteps, type PlacedStep } from './steps';

/** Names for the IDs in a workflow. */
export interface Names {
  agent(id: string): string;
  /** Name with a hash sign, such as `#general`. */
  channel(id: string): string;
  person(id: string): string;
}

export const KINDS: Record<StepKind, string> = {
  agent: 'Ask an agent',
  fork: 'Deep dive',
  approval: 'Ask for approval',
  condition: 'Condition',
  parallel: 'At the same time',
  output: 'Post a message',
};
/** Kinds that a branch can have. */
export const BRANCH_KINDS: readonly StepKind[] = ['agent', 'condition', 'output'];

export const FROM: Record<Trigger['from'], string> = {
  people: 'People',
  keys: 'Programs with an API key',
  any: 'People and programs',
  bots: 'Bots',
};
export const ON_ERROR: Record<Step['on_error'], string> = {
  stop: 'Stop the run',
  continue: 'Continue with the next step',
};
export const PUBLISH: Record<StepOf<'fork'>['publish'], string> = {
  person: 'After a person reviews it',
  agent: 'Without a review',
};
export const WHO: Record<StepOf<'approval'>['who'], string> = {
  requester: 'The person who started the run',
  admin: 'An admin',
  user: 'One person',
  any_member: 'Anyone who can post there',
};
export const OPS: Record<StepOf<'condition'>['op'], string> = {
  contains: 'contains',
  equals: 'is',
  matches: 'matches',
  model_says: 'a model says yes to',
};
/** Effect of a denied approval without a jump. */
export const CANCELED = 'the run is stopped';
/** Label of the value that a text is compared with. */
export const WITH: Record<StepOf<'condition'>['op'], string> = {
  contains: 'Text to find',
  equals: 'Text to compare with',
  matches: 'Regular expression',
  model_says: 'Question to the model',
};

const RUN_STATUS: Record<WorkflowRun['status'], string> = {
  queued: 'queued',
  running: 'running',
  waiting: 'waiting for a person',
  completed: 'completed',
  failed: 'failed',
  cancelled: 'stopped',
};
/** "Last run: Mon 23 November, 09:00, completed". */
export const lastRunText = (run: WorkflowRun, now = new Date()): string =>
  `Last run: ${instantText(run.created_at, now)}, ${RUN_STATUS[run.status]}`;

const UNITS = [
  ['week', 604_800],
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
] as const;
/** "2 hours". */
export function durationText(seconds: number): string {
  const [unit, size] = UNITS.find(([, s]) => seconds % s === 0) ?? (['second', 1] as const);
  return plural(seconds / size, unit);
}

/** The step's title, or a name for what it does. */
export function stepName(step: Step, defaultAgent: string, names: Names): string {
  if (step.title) return step.title;
  return step.kind === 'agent' ? `Ask ${names.agent(step.agent_id ?? defaultAgent)}` : KINDS[step.kind];
}
/** "then step 5", "otherwise end". */
export function jumpText(word: 'then' | 'otherwise', target: string, placed: readonly PlacedStep[]): string {
  if (target === END) return `${word} end`;
  const to = placed.find((p) => p.step.id === target);
  return to ? `${word} step ${to.number}` : `${word} a missing step`;
}

/** Reason why a jump is invalid; blank if it is not. */
export function jumpProblem(from: PlacedStep, target: string, placed: readonly PlacedStep[]): string {
  if (target === END || from.list.slice(from.index + 1).some((s) => s.id === target)) return '';
  const to = placed.find((p) => p.step.id === target);
  return to
    ? `Step ${from.number} jumps back to step ${to.number}. Steps can only jump forward.`
    : `Step ${from.number} jumps to a step that does not exist.`;
}
/** Reason why a step cannot use an output; blank if it can. */
export function outputProblem(by: PlacedStep, id: string, placed: readonly PlacedStep[]): string {
  if (by.earlier.includes(id)) return '';
  const of = placed.find((p) => p.step.id === id);
  return of
    ? `Step ${by.number} uses the output of step ${of.number}, which does not come before it.`
    : `Step ${by.number} uses the output of “${id}”, which is not a step.`;
}

/** Variables for the texts of a step, with their names. */
export const VARIABLES: readonly (readonly [string, string])[] = [
  ['{{input}}', 'Input of the run'],
  ['{{message}}', 'Message that started the run'],
  ['{{author}}', 'Author of that message'],
  ['{{date}}', 'Date'],
  ['{{decisions}}', 'Decisions since the last run'],
  ['{{action_items}}', 'Action items since the last run'],
];

/** "Messages by programs with an API key in #alerts, only new threads, with any of: urgent". */
export function triggerText(trigger: Trigger | null, names: Names): string {
  if (!trigger) return '';
  const who = FROM[trigger.from];
  return [
    `Messages by ${who.charAt(0).toLowerCase()}${who.slice(1)} in ${names.channel(trigger.channel_id)}`,
    trigger.new_threads_only ? 'only new threads' : '',
    trigger.words.length ? `with any of: ${trigger.words.join(', ')}` : '',
  ]
    .filter(Boolean)
    .join(', ');
}

/** Facts about a step, one per line. */
function factsOf(step: Step, names: Names): string[] {
  switch (step.kind) {
    case 'agent':
      return [step.post ? 'Post the answer' : '', step.prompt];
    case 'fork':
      return [
        step.agent_ids.map((id) => names.agent(id)).join(', ') || 'People only',
        step.turns_max === null ? '' : plural(step.turns_max, 'turn'),
        step.close_after_s === null ? '' : `Draft the result after ${durationText(step.close_after_s)}`,
        `Post the result: ${PUBLISH[step.publish].toLowerCase()}`,
        `Fail after ${durationText(step.wait_s)}`,
        step.goal,
      ];
    case 'approval':
      return [
        `Approved by: ${step.user_id ? names.person(step.user_id) : WHO[step.who].toLowerCase()}`,
        `Expires after ${durationText(step.timeout_s)}`,
        step.else === null ? `Denied or expired: ${CANCELED}` : '',
        step.text,
      ];
    case 'condition':
      return [`Test: ${OPS[step.op]} “${step.with}”`, step.value];
    case 'parallel':
      return [plural(step.branches.length, 'branch', 'branches')];
    case 'output':
      return [step.channel_id === null ? '' : `In ${names.channel(step.channel_id)}`, step.content];
  }
}
/** All steps as text, to compare versions line by line. */
export function stepsText(steps: readonly Step[], defaultAgent: string, names: Names): string {
  const placed = placedSteps(steps);
  const one = (p: PlacedStep): string => {
    const { step } = p;
    const kind = step.title ? ` (${KINDS[step.kind].toLowerCase()})` : '';
    const agent = step.kind === 'agent' && step.title ? names.agent(step.agent_id ?? defaultAgent) : '';
    const jumps = jumpsOf(step).map(({ field, target }) =>
      jumpText(field === 'then' ? 'then' : 'otherwise', target, placed),
    );
    return [
      p.branch ? `Branch ${p.branch.index + 1}` : '',
      `Step ${p.number}: ${stepName(step, defaultAgent, names)}${kind}`,
      agent,
      ...factsOf(step, names),
      jumps.join(', '),
      step.on_error === 'continue' ? 'If it fails: continue' : '',
    ]
      .filter(Boolean)
      .join('\n');
  };
  return placed.map(one).join('\n\n');
}
