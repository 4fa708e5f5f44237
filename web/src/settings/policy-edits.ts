import type { AgentsContext } from '../agents/agents-context.svelte';
import type { AgentsApi } from '../api/agents';
import type { ContextSection, PolicyPatch, ToolKind, VersionedPolicy } from '../api/agent-types';
import { storedEditIn } from '../state/edit-storage';
import { isKeptEdit } from '../state/shared-edit.svelte';
import { VersionedEdit, type StoredFields } from '../state/versioned-edit.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';

/** Editor of some fields of the workspace's policy. Changes to other fields do not cause conflicts. */
function policyEdit<F extends object>(
  { ws, api }: { ws: WorkspaceState; api: AgentsApi },
  name: string,
  fieldsOf: (policy: VersionedPolicy) => F,
  patchOf: (changed: Partial<F>) => PolicyPatch,
): VersionedEdit<F> {
  const stored = (policy: VersionedPolicy): StoredFields<F> => ({
    version: policy.version,
    fields: fieldsOf(policy),
  });
  const read = async () => stored(await api.policy(ws.id));
  return new VersionedEdit(
    {
      read,
      write: async (version, changed) => stored(await api.patchPolicy(ws.id, version, patchOf(changed))),
      newest: read,
    },
    storedEditIn(ws.store, `openvibe.policy.${ws.myId}.${ws.id}.${name}`, isKeptEdit<F>),
  );
}

export interface AgentRules {
  required_text: string;
  allowed_tools: ToolKind[] | null;
  members_write_agents: boolean;
  bare_model: boolean;
}
export const RULE_LABELS: Record<keyof AgentRules, string> = {
  required_text: 'Required text',
  allowed_tools: 'Allowed tools',
  members_write_agents: 'Members can create and edit agents',
  bare_model: 'API clients can use the model without an agent',
};
/** Formats a value of a rule as text. */
export const ruleText = (rule: keyof AgentRules, value: unknown): string => {
  if (rule === 'required_text') return value as string;
  if (rule === 'allowed_tools') return (value as ToolKind[] | null)?.join(', ') ?? 'All kinds';
  return value ? 'Yes' : 'No';
};
/** Rules for all agents. */
export const agentRulesEdit = (context: AgentsContext): VersionedEdit<AgentRules> =>
  policyEdit(
    context,
    'rules',
    (policy) => {
      context.policy = policy;
      const { required_text, allowed_tools, members_write_agents, bare_model } = policy;
      const kinds = allowed_tools && [...allowed_tools].sort();
      return { required_text: required_text ?? '', allowed_tools: kinds, members_write_agents, bare_model };
    },
    ({ required_text, ...others }) => ({
      ...others,
      ...(required_text !== undefined && { required_text: required_text.trim() || null }),
    }),
  );

/** The part of the workspace context that people write. */
export interface ContextFields {
  text: string;
  sections: ContextSection[];
}
export const SECTIONS: Record<ContextSection, string> = {
  decisions: 'The newest decisions',
  action_items: 'Open action items',
  members: 'Members',
  memories: 'Memories of the workspace',
};
export const CONTEXT_LABELS: Record<keyof ContextFields, string> = {
  text: 'About us',
  sections: 'Also send',
};
/** Formats a value of these fields as text. */
export const contextText = (field: keyof ContextFields, value: unknown): string =>
  field === 'text'
    ? (value as string)
    : (value as ContextSection[]).map((section) => SECTIONS[section]).join(', ');
export const contextEdit = (ws: WorkspaceState, api: AgentsApi): VersionedEdit<ContextFields> =>
  policyEdit(
    { ws, api },
    'context',
    ({ workspace_context: { text, sections } }) => ({ text, sections: [...sections].sort() }),
    (workspace_context) => ({ workspace_context }),
  );
