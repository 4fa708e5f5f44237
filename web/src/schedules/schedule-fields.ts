import type {
  NewSchedule,
  Schedule,
  ScheduleDelivery,
  SchedulePatch,
  ScheduleTarget,
} from '../api/schedules';
import type { Workflow } from '../api/workflows';
import { posts } from '../workflows/steps';

export const FIELDS = ['name', 'agent', 'prompt', 'cron', 'timezone', 'deliver', 'missed'] as const;
export type FieldKey = (typeof FIELDS)[number];
/** `agent` is `agent:ID`, `heartbeat:ID`, or `workflow:ID`, whose input is `prompt`. `deliver` is `channel:ID`, `thread:ID`, or blank. */
export type ScheduleFields = Record<FieldKey, string>;

export const LABELS: Record<FieldKey, string> = {
  name: 'Name',
  agent: 'Agent or workflow',
  prompt: 'What to ask',
  cron: 'When',
  timezone: 'Time zone',
  deliver: 'Deliver to',
  missed: 'If a time is missed',
};
export const MISSED: Record<Schedule['missed'], string> = {
  run_once: 'Run once, up to an hour late',
  skip: 'Skip it',
};
export const isHeartbeat = ({ agent }: Pick<ScheduleFields, 'agent'>): boolean =>
  agent.startsWith('heartbeat:');
export const isWorkflow = ({ agent }: Pick<ScheduleFields, 'agent'>): boolean =>
  agent.startsWith('workflow:');

function placeKey(place: Schedule['deliver']): string {
  if (!place) return '';
  return 'thread_id' in place ? `thread:${place.thread_id}` : `channel:${place.channel_id}`;
}
export function fieldsOf(s: Schedule): ScheduleFields {
  const { target } = s;
  return {
    name: s.name,
    agent: `${target.type}:${target.type === 'workflow' ? target.workflow_id : target.agent_id}`,
    prompt: target.type === 'agent' ? target.prompt : target.type === 'workflow' ? target.input : '',
    cron: s.cron,
    timezone: s.timezone,
    deliver: placeKey(s.deliver),
    missed: s.missed,
  };
}

/** Start of a new schedule: weekday mornings. */
export const blank = (agent: string, channel: string, timezone: string): ScheduleFields => ({
  name: '',
  agent: `agent:${agent}`,
  prompt: '',
  cron: '0 9 * * 1-5',
  timezone,
  deliver: `channel:${channel}`,
  missed: 'run_once',
});

const idIn = (key: string) => key.slice(key.indexOf(':') + 1);
/**
 * True if the schedule posts something and therefore needs a conversation. If the workflow is not known, the
 * server decides.
 */
export function needsPlace(f: Pick<ScheduleFields, 'agent'>, workflows: readonly Workflow[]): boolean {
  if (!isWorkflow(f)) return true;
  const workflow = workflows.find((w) => w.id === idIn(f.agent));
  return !!workflow && posts(workflow.steps);
}
/** True if no required field is empty. */
export const isComplete = (f: ScheduleFields, workflows: readonly Workflow[]): boolean =>
  [f.name, f.cron, idIn(f.agent)].every((text) => text.trim()) &&
  (!!idIn(f.deliver) || !needsPlace(f, workflows)) &&
  (isWorkflow(f) || isHeartbeat(f) || f.prompt.trim() !== '');
function targetOf(f: ScheduleFields): ScheduleTarget {
  const id = idIn(f.agent);
  if (isWorkflow(f)) return { type: 'workflow', workflow_id: id, input: f.prompt };
  if (isHeartbeat(f)) return { type: 'heartbeat', agent_id: id };
  return { type: 'agent', agent_id: id, prompt: f.prompt };
}
function deliveryOf({ deliver }: ScheduleFields): ScheduleDelivery {
  if (!deliver) return null;
  return deliver.startsWith('thread:') ? { thread_id: idIn(deliver) } : { channel_id: idIn(deliver) };
}

export const formOf = (f: ScheduleFields): NewSchedule => ({
  name: f.name,
  cron: f.cron,
  timezone: f.timezone,
  target: targetOf(f),
  deliver: deliveryOf(f),
  missed: f.missed === 'skip' ? 'skip' : 'run_once',
});

export const changedIn = (before: ScheduleFields, after: ScheduleFields): FieldKey[] =>
  FIELDS.filter((k) => before[k] !== after[k]);

/** Changed fields only; the target is replaced as a whole. */
export function patchOf(before: ScheduleFields, after: ScheduleFields): SchedulePatch {
  const form = formOf(after);
  const patch: SchedulePatch = {};
  for (const key of changedIn(before, after)) {
    if (key === 'agent' || key === 'prompt') patch.target = form.target;
    else Object.assign(patch, { [key]: form[key] });
  }
  return patch;
}

/** The field that a parameter of an error belongs to. */
export function fieldOf(param: string | null): FieldKey | null {
  const [head, ...rest] = (param ?? '').split('.');
  if (head === 'target') return rest.some((at) => ['prompt', 'input'].includes(at)) ? 'prompt' : 'agent';
  return FIELDS.find((k) => k === head) ?? null;
}

/** Updates a list with a schedule from an event or a response, and keeps it sorted from oldest to newest. */
export const withSchedule = (list: Schedule[], changed: Schedule): Schedule[] =>
  list.some((s) => s.id === changed.id)
    ? list.map((s) => (s.id === changed.id ? changed : s))
    : [...list, changed];
export const without = (list: Schedule[], id: string): Schedule[] => list.filter((s) => s.id !== id);
