/** Workflows and their runs for unit tests; tests specify only the relevant fields. */
import type { Run, RunStep, Workflow } from '../api/runs';
import type { Task } from '../api/types';
import { AT, task } from './make';

/** Mia's workflow: Vibe drafts a text, somebody approves it, and it is posted. */
export const workflow = (x: Partial<Workflow> = {}): Workflow => ({
  id: 'flow_1',
  object: 'workflow',
  name: 'review',
  description: 'Drafts and publishes',
  owner_id: 'user_me',
  default_agent_id: 'agent_vibe',
  agents: [],
  on_message: null,
  steps: [
    {
      id: 'draft',
      kind: 'agent',
      title: 'Ask Vibe',
      on_error: 'stop',
      agent_id: null,
      prompt: 'Write this: {{input}}',
      post: false,
    },
    {
      id: 'approve',
      kind: 'approval',
      title: 'Approve the draft',
      on_error: 'stop',
      text: 'Publish this?',
      who: 'requester',
      user_id: null,
      timeout_s: 86_400,
      else: null,
    },
    {
      id: 'publish',
      kind: 'output',
      title: null,
      on_error: 'stop',
      content: '{{steps.draft.output}}',
      channel_id: null,
    },
  ],
  status: 'active',
  paused_reason: null,
  dropped: 0,
  version: 1,
  created_at: AT,
  updated_at: AT,
  ...x,
});
export const step = (x: Partial<RunStep> = {}): RunStep => ({
  id: 'draft',
  kind: 'agent',
  state: 'pending',
  task_id: null,
  fork_id: null,
  action_id: null,
  output: null,
  error: null,
  started_at: null,
  ended_at: null,
  ...x,
});
/** States of the steps of `workflow`. */
export const steps = (...states: RunStep['state'][]): RunStep[] => [
  step({ state: states[0] ?? 'pending' }),
  step({ id: 'approve', kind: 'approval', state: states[1] ?? 'pending' }),
  step({ id: 'publish', kind: 'output', state: states[2] ?? 'pending' }),
];
/** Mia's run of the workflow in a thread. */
export const run = (x: Partial<Run> = {}): Run => ({
  id: 'run_1',
  object: 'run',
  workflow_id: 'flow_1',
  workflow_version: 1,
  status: 'running',
  cause: { type: 'manual', id: null },
  requested_by: 'user_me',
  channel_id: 'chan_1',
  thread_id: 'thread_1',
  input: 'the plan',
  root_task_id: 'task_1',
  steps: steps('running'),
  error: null,
  created_at: AT,
  completed_at: null,
  ...x,
});
/** The root task of `run`. */
export const rootTask = (x: Partial<Task> = {}): Task =>
  task({ kind: 'workflow', status: 'running', agent_id: null, agent_version: null, run_id: 'run_1', ...x });
