/** Workflows for unit tests; tests specify only the relevant fields. */
import type { Step, StepOf, Workflow, WorkflowRun } from '../api/workflows';
import { blankStep } from '../workflows/steps';
import type { Names } from '../workflows/words';
import { AT } from './make';

const blank = <K extends Step['kind']>(kind: K): StepOf<K> => blankStep(kind, new Set()) as StepOf<K>;
export const ask = (id: string, x: Partial<StepOf<'agent'>> = {}): StepOf<'agent'> => ({
  ...blank('agent'),
  id,
  prompt: 'Write.',
  ...x,
});
export const dive = (id: string, x: Partial<StepOf<'fork'>> = {}): StepOf<'fork'> => ({
  ...blank('fork'),
  id,
  goal: 'Decide.',
  ...x,
});
export const approval = (id: string, x: Partial<StepOf<'approval'>> = {}): StepOf<'approval'> => ({
  ...blank('approval'),
  id,
  text: 'Publish?',
  ...x,
});
export const check = (id: string, x: Partial<StepOf<'condition'>> = {}): StepOf<'condition'> => ({
  ...blank('condition'),
  id,
  value: '{{input}}',
  with: 'urgent',
  ...x,
});
export const post = (id: string, x: Partial<StepOf<'output'>> = {}): StepOf<'output'> => ({
  ...blank('output'),
  id,
  content: 'Done.',
  ...x,
});
export const together = (id: string, branches: Step[][]): StepOf<'parallel'> => ({
  ...blank('parallel'),
  id,
  branches,
});

/** Mia's workflow of three steps: a draft, its check, and a message. */
export const workflow = (x: Partial<Workflow> = {}): Workflow => ({
  id: 'flow_1',
  object: 'workflow',
  name: 'review',
  description: '',
  default_agent_id: 'agent_vibe',
  agents: ['agent_coder'],
  on_message: null,
  steps: [
    ask('draft'),
    check('is_urgent', { value: '{{steps.draft.output}}', then: 'tell' }),
    post('tell', { content: '{{steps.draft.output}}' }),
  ],
  owner_id: 'user_me',
  status: 'active',
  paused_reason: null,
  dropped: 0,
  version: 1,
  created_at: AT,
  updated_at: AT,
  ...x,
});
export const run = (x: Partial<WorkflowRun> = {}): WorkflowRun => ({
  id: 'run_1',
  object: 'run',
  workflow_id: 'flow_1',
  workflow_version: 1,
  status: 'completed',
  cause: { type: 'manual', id: null },
  requested_by: 'user_me',
  channel_id: 'chan_1',
  thread_id: null,
  input: '',
  root_task_id: 'task_1',
  steps: [],
  error: null,
  created_at: AT,
  completed_at: AT,
  ...x,
});

const AGENTS: Record<string, string> = { agent_vibe: 'Vibe', agent_coder: 'Coder' };
export const names: Names = {
  agent: (id) => AGENTS[id] ?? 'The agent',
  channel: (id) => (id === 'chan_1' ? '#general' : 'A channel'),
  person: (id) => (id === 'user_bo' ? 'Bo' : 'a former member'),
};
