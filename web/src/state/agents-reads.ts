import type { AgentProfile } from '../api/agent-types';
import { listed } from '../lib/text';

/** Messages that a reply reads while the conversation has no summary. */
const NEWEST_MESSAGES = 50;
/** Kinds of tools that find texts outside of the conversation. */
const FINDS: readonly string[] = ['file_search', 'web_fetch', 'mcp', 'code_interpreter'];

/** What a reply of this agent reads: "The newest 50 messages, summaries of older ones, and memories". */
export function readsText({ memory, tools }: Pick<AgentProfile, 'memory' | 'tools'>): string {
  const scopes = Object.values(memory?.scopes ?? {}).filter((on) => on !== null);
  const forgets = scopes.length === 5 && scopes.every((on) => on === false);
  const parts = [
    `The newest ${NEWEST_MESSAGES} messages`,
    memory?.summary_enabled === false ? '' : 'summaries of older ones',
    forgets ? '' : 'memories',
    tools.some((tool) => FINDS.includes(tool.type) && tool.available !== false) ? 'what its tools find' : '',
  ];
  return listed(parts.filter(Boolean));
}
