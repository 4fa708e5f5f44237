import type { Action } from '../api/actions';
import type { TaskContext } from '../api/types';
import { listed } from '../lib/text';
import { plural } from '../lib/time';

/** Functions that read other conversations of the workspace, or ask an agent that may. */
const SEARCHES = [
  'search_messages',
  'read_thread',
  'search_decisions',
  'list_action_items',
  'search_files',
  'read_file',
];
/** True for completed calls that return text from other conversations. */
const isReading = (a: Action): boolean =>
  (a.name === 'search' || (a.name === 'read' && a.function !== 'read_skill')) && a.state === 'done';
const and = (parts: string[]): string =>
  parts.length > 1 ? `${parts.slice(0, -1).join(', ')}, and ${parts.at(-1)!}` : (parts[0] ?? '');

/** Memories that the prompt contains, and their channels: "2 memories from #board and #ops". */
function memoriesText(
  { used, hidden }: TaskContext['memories'],
  channelName: (id: string) => string | null,
): string[] {
  const names = used.map((m) => (m.channel_id ? channelName(m.channel_id) : null));
  const known = [...new Set(names.filter((name) => name !== null))];
  const from = known.length ? ` from ${listed(known)}` : '';
  return [
    ...(used.length ? [`${plural(used.length, 'memory', 'memories')}${from}`] : []),
    ...hidden.map((h) => `${plural(h.count, 'personal memory', 'personal memories')} of ${h.name}`),
  ];
}

/**
 * What the agent read here and elsewhere, from its prompt and its calls: "Read 36 messages here, and 2
 * memories from #board. Could search this workspace, and did not."
 */
export function reachText(
  seen: Pick<TaskContext, 'messages' | 'memories' | 'tools' | 'sources'>,
  actions: readonly Action[],
  channelName: (id: string) => string | null,
): string {
  const state = (name: string) => seen.sources.find((s) => s.name === name)?.state;
  const isSent = (name: string) => ['sent', 'cut', 'hidden'].includes(state(name) ?? '');
  const memories = memoriesText(seen.memories, channelName);
  const workspace = isSent('workspace') ? ['what agents know about the workspace'] : [];
  const read = [`${plural(seen.messages.length, 'message')} here`, ...memories, ...workspace];
  const sentences = [`Read ${and(read)}.`];
  const offered = seen.tools.map((tool) => tool.name);
  const canSearch = offered.some((name) => SEARCHES.includes(name));
  if (actions.some(isReading)) sentences.push('Searched this workspace.');
  else if (canSearch) sentences.push('Could search this workspace, and did not.');
  else if (state('tools') === 'hidden' || offered.includes('delegate')) return sentences[0]!;
  else if (!memories.length && !workspace.length && !isSent('memories'))
    sentences.push('Could not read other conversations.');
  return sentences.join(' ');
}
