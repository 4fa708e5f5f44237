/** Tool calls for unit tests; tests specify only the relevant fields. */
import type { Action, Grant, Need, Waiting } from '../api/actions';
import { AT } from './make';

export const need = (x: Partial<Need> = {}): Need => ({
  who: 'requester',
  user_id: null,
  by: null,
  at: null,
  ...x,
});
/** A call that waits for Mia, who asked Vibe. */
export const action = (x: Partial<Action> = {}): Action => ({
  id: 'act_1',
  object: 'action',
  kind: 'call',
  task_id: 'task_1',
  thread_id: 'thread_1',
  fork_id: null,
  agent_id: 'agent_vibe',
  requested_by: 'user_me',
  round: 1,
  call: 1,
  name: 'mcp:jira.create_issue',
  function: 'jira__create_issue',
  title: 'Create an issue',
  tool: 'tool_jira',
  effect: 'write',
  state: 'waiting',
  arguments: { summary: 'Offline sync' },
  arguments_hash: 'a1',
  sources: [],
  needs: [need()],
  granted_by: null,
  grantable: true,
  result: null,
  count: null,
  error: null,
  duration_ms: null,
  repeats: null,
  child_task_id: null,
  expires_at: '2026-01-06T09:00:00.000Z',
  created_at: AT,
  ended_at: null,
  ...x,
});
/** The action as in events, which omit texts. */
export const announced = (a: Action): Action => ({
  ...a,
  arguments: null,
  arguments_hash: null,
  result: null,
  sources: [],
});
/** The action after a person approved it. */
export const approved = (a: Action, by = 'user_me', x: Partial<Action> = {}): Action => ({
  ...a,
  state: 'approved',
  granted_by: 'person',
  needs: a.needs.map((n) => ({ ...n, by, at: AT })),
  expires_at: null,
  ...x,
});
export const grant = (x: Partial<Grant> = {}): Grant => ({
  id: 'grant_1',
  object: 'grant',
  agent_id: 'agent_vibe',
  requested_by: 'user_me',
  thread_id: 'thread_1',
  fork_id: null,
  tool: 'tool_jira',
  function: 'jira__create_issue',
  title: 'Create an issue',
  host: null,
  labels: [],
  uses: 1,
  created_at: AT,
  expires_at: '2100-01-05T10:00:00.000Z',
  ...x,
});
export const waiting = (x: Partial<Waiting> = {}): Waiting => ({
  actions: [],
  grants: [],
  tools: [],
  budgets: [],
  paused: [],
  drafts: [],
  count: x.actions?.length ?? 0,
  ...x,
});
