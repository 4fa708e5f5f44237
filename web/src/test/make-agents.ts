/** API agents for unit tests. */
import type { AgentPreview, AgentProfile } from '../api/agent-types';
import { agent } from './make';

export const profile = (x: Partial<AgentProfile> = {}): AgentProfile => ({
  ...agent('agent_quill', 'quill', 'Quill'),
  workspace_id: 'ws_1',
  instructions: 'You are Quill.\n\nYou write.',
  identity: null,
  max_output_tokens: 4096,
  temperature: null,
  top_p: null,
  agency: null,
  tools: [],
  sandbox_policy_id: null,
  memory: null,
  prompting: null,
  sentiment: null,
  reflection: null,
  trust: null,
  persona_id: null,
  persona: null,
  store: null,
  store_required: null,
  metadata: {},
  not_in_force: [],
  created_by: 'user_me',
  ...x,
});
export const preview = (x: Partial<AgentPreview> = {}): AgentPreview => ({
  system: 'You are Quill.',
  tokens: 4,
  segments: [{ name: 'instructions', tokens: 4 }],
  model: 'scripted-1',
  effective_model: 'scripted-1',
  max_output_tokens: 4096,
  temperature: null,
  top_p: null,
  resolved_from: [],
  ...x,
});
