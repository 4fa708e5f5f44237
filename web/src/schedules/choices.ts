import type { Workflow } from '../api/workflows';
import { agentName, threadTitle } from '../lib/text';
import type { WorkspaceState } from '../state/workspace.svelte';

/** Agents that the user can schedule, and the current one. */
export function agentChoices(ws: WorkspaceState, current: string): { id: string; name: string }[] {
  const { people } = ws;
  const list = people.agents
    .filter((a) => people.canInvoke(a))
    .map((a) => ({ id: a.id, name: agentName(a) }))
    .sort((a, b) => a.name.localeCompare(b.name));
  const id = current.slice(current.indexOf(':') + 1);
  if (!id || current.startsWith('workflow:') || list.some((a) => a.id === id)) return list;
  return [...list, { id, name: people.agentName(id) }];
}

/** Workflows that can be scheduled, and the current one. */
export function workflowChoices(
  workflows: readonly Workflow[],
  current: string,
): { key: string; name: string }[] {
  const list = workflows
    .map(({ id, name, status }) => ({ key: `workflow:${id}`, name, status }))
    .filter(({ key, status }) => status === 'active' || key === current)
    .sort((a, b) => a.name.localeCompare(b.name));
  return !current.startsWith('workflow:') || list.some((w) => w.key === current)
    ? list
    : [...list, { key: current, name: 'A workflow' }];
}

/** Name of the scheduled agent or workflow, by its key. */
export function targetName(ws: WorkspaceState, workflows: readonly Workflow[], key: string): string {
  const [kind, id = ''] = key.split(':');
  if (kind !== 'workflow')
    return `${ws.people.agentName(id)}${kind === 'heartbeat' ? ', regular check' : ''}`;
  const workflow = workflows.find((w) => w.id === id);
  return workflow ? `Workflow ${workflow.name}` : 'A workflow';
}

/** Name of a conversation, by its key. */
export function placeName(ws: WorkspaceState, key: string): string {
  const [kind, id = ''] = key.split(':');
  if (kind === 'thread') {
    const thread = ws.threads.map.get(id);
    return thread ? `Thread “${threadTitle(thread)}”` : 'A thread';
  }
  const channel = ws.channels.map.get(id);
  if (!channel) return 'A channel';
  return channel.kind === 'direct' ? ws.channels.title(channel) : `#${channel.name}`;
}

/** Channels of the user, and the current conversation. */
export function channelChoices(ws: WorkspaceState, current: string): { key: string; name: string }[] {
  const keys = [...ws.channels.joined, ...ws.channels.directs].map((c) => `channel:${c.id}`);
  if (current && !keys.includes(current)) keys.push(current);
  return keys.map((key) => ({ key, name: placeName(ws, key) }));
}

/** Time zone of the browser. */
export const localZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;
/** Names of time zones, and the current one. */
export const zones = (current: string): string[] =>
  [...new Set([...Intl.supportedValuesOf('timeZone'), 'UTC', current])].sort();
