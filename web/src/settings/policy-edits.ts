import type { AgentsContext } from '../agents/agents-context.svelte';
import type { ContextSection, ToolKind, VersionedPolicy } from '../api/agent-types';
import { storedEditIn } from '../state/edit-storage';
import { isKeptEdit } from '../state/shared-edit.svelte';
import { VersionedEdit, type StoredFields } from '../state/versioned-edit.svelte';

/** Texts and lists of the workspace's policy. Changes to its other fields do not cause conflicts. */
export interface ToldFields {
  required_text: string;
  /** Text of the workspace context. */
  text: string;
  sections: ContextSection[];
  allowed_tools: ToolKind[] | null;
}
export const SECTIONS: Record<ContextSection, string> = {
  decisions: 'The newest decisions',
  action_items: 'Open action items',
  members: 'Members',
  memories: 'Memories of the workspace',
};
export const TOLD_LABELS: Record<keyof ToldFields, string> = {
  required_text: 'Told to every agent first',
  text: 'About us',
  sections: 'Also send',
  allowed_tools: 'Allowed tools',
};
/** Formats a value of these fields as text. */
export function toldText(field: keyof ToldFields, value: unknown): string {
  if (field === 'allowed_tools') return (value as ToolKind[] | null)?.join(', ') ?? 'All kinds';
  if (field === 'sections') return (value as ContextSection[]).map((section) => SECTIONS[section]).join(', ');
  return value as string;
}

export function toldEdit({ ws, api }: AgentsContext): VersionedEdit<ToldFields> {
  const stored = (policy: VersionedPolicy): StoredFields<ToldFields> => {
    const { required_text, allowed_tools, workspace_context: context, version } = policy;
    const kinds = allowed_tools && [...allowed_tools].sort();
    const { text, sections } = context;
    return {
      version,
      fields: {
        required_text: required_text ?? '',
        text,
        sections: [...sections].sort(),
        allowed_tools: kinds,
      },
    };
  };
  const read = async () => stored(await api.policy(ws.id));
  return new VersionedEdit(
    {
      read,
      write: async (version, { required_text, allowed_tools, ...context }) => {
        const patch = {
          ...(allowed_tools !== undefined && { allowed_tools }),
          ...(required_text !== undefined && { required_text: required_text.trim() || null }),
          ...(Object.keys(context).length > 0 && { workspace_context: context }),
        };
        return stored(await api.patchPolicy(ws.id, version, patch));
      },
      newest: read,
    },
    storedEditIn(ws.store, `openvibe.policy.${ws.myId}.${ws.id}`, isKeptEdit<ToldFields>),
  );
}
