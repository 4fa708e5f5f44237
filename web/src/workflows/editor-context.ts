import { createContext } from 'svelte';
import type { Names } from './words';
import type { WorkflowEdit } from './workflow-edit.svelte';

/** The editor that contains a field. */
export interface EditorContext {
  readonly edit: WorkflowEdit;
  readonly names: Names;
  readonly readOnly: boolean;
}
export const [getEditor, setEditor] = createContext<EditorContext>();

/** Options for the agents of a step, including the current ones. */
export function agentOptions(editor: EditorContext, current: readonly string[]): [string, string][] {
  const { default_agent_id, agents } = editor.edit.fields;
  const ids = new Set([default_agent_id, ...agents, ...current]);
  return [...ids].map((id) => [id, editor.names.agent(id)]);
}

/** ID of the element of a step. */
export const elementOf = (step: string): string => `step-${step}`;
/** ID of the heading of the steps. */
export const STEPS_HEAD = 'workflow-steps';
